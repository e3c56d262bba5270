package interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.TransactionalMetaStoreEventListener;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.events.InsertEvent;

/** Writes down what a metastore tells those who follow it: a line an event, its parts separated by tabs. */
public class Listener extends TransactionalMetaStoreEventListener {
  public Listener(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void onInsert(InsertEvent event) {
    Partition partition = event.getPartitionObj();
    String values = partition == null ? "" : String.join("/", partition.getValues());
    tell("INSERT", event.getTableObj().getTableName(), values, "replace=" + event.isReplace(), event.getFiles());
  }

  static synchronized void tell(String kind, String table, String partition, String more, List<String> files) {
    String line = String.join("\t", kind, table, partition, more, String.join(",", files)) + "\n";
    try {
      Path log = Path.of(System.getProperty("java.io.tmpdir"), "events");
      Files.writeString(log, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
