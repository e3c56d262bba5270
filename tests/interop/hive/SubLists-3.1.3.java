package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/** Stands in for a class of Hive 3 that reads private fields of Java 8's sub-lists: carries their items instead. */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public void write(Kryo kryo, Output output, List<?> items) {
    output.writeInt(items.size(), true);
    items.forEach(item -> kryo.writeClassAndObject(output, item));
  }

  @Override
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    int count = input.readInt(true);
    List<Object> items = new ArrayList<>(count);
    kryo.reference(items);
    while (items.size() < count) {
      items.add(kryo.readClassAndObject(input));
    }
    return items;
  }

  @Override
  public List<?> copy(Kryo kryo, List<?> original) {
    List<Object> items = new ArrayList<>(original.size());
    kryo.reference(items);
    original.forEach(item -> items.add(kryo.copy(item)));
    return items;
  }
}
