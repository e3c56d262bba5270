package interop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/** The local file system without check sums beside the files: we write beside Hive, and know nothing of them. */
public class PlainFiles extends LocalFileSystem {
  @Override
  public void initialize(URI uri, Configuration configuration) throws IOException {
    super.initialize(uri, configuration);
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }

  @Override
  public FSDataInputStream open(Path file, int buffer) throws IOException {
    return getRawFileSystem().open(file, buffer);
  }
}
