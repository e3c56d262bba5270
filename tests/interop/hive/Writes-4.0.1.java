package interop;

import java.sql.Connection;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.events.AcidWriteEvent;
import org.apache.hadoop.hive.metastore.events.BatchAcidWriteEvent;
import org.apache.hadoop.hive.metastore.tools.SQLGenerator;

/** The same with the write notifications of Hive 4, one by one or several at once. */
public class Writes extends Listener {
  public Writes(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void onAcidWrite(AcidWriteEvent event, Connection connection, SQLGenerator generator) {
    tell(event.getTable(), event.getPartitionObj(), event.getWriteId(), event.getSubDirs(), event.getFiles());
  }

  @Override
  public void onBatchAcidWrite(BatchAcidWriteEvent event, Connection connection, SQLGenerator generator) {
    for (int place = 0; place < event.getNumRequest(); place++) {
      tell(
          event.getTable(place),
          event.getPartitionObj(place),
          event.getWriteId(place),
          event.getSubDirs(place),
          event.getFiles(place));
    }
  }

  private static void tell(String table, Partition partition, long writeId, List<String> places, List<String> files) {
    String values = partition == null ? "" : String.join("/", partition.getValues());
    tell("WRITE", table, values, "id=" + writeId + " in=" + (places == null ? "" : String.join(",", places)), files);
  }
}
