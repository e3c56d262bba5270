package interop;

import java.io.File;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * System class loader of a Hive server on Java 17. Hive 3 insists on a URLClassLoader, and listens on every address:
 * here "every address" is made the loopback one before Hive's first class is loaded.
 */
public final class Loader extends URLClassLoader {
  public Loader(ClassLoader application) throws Exception {
    super("hive", places(), application.getParent());
    Field implementation = InetAddress.class.getDeclaredField("impl");
    implementation.setAccessible(true);
    Object known = implementation.get(null);
    Field any = known.getClass().getDeclaredField("anyLocalAddress");
    any.setAccessible(true);
    any.set(known, InetAddress.getByAddress(new byte[] {127, 0, 0, 1}));
  }

  private static URL[] places() throws Exception {
    List<String> lines = Files.readAllLines(Path.of(System.getProperty("interop.classpath")));
    System.setProperty("java.class.path", String.join(File.pathSeparator, lines));
    URL[] places = new URL[lines.size()];
    for (int i = 0; i < places.length; i++) {
      places[i] = new File(lines.get(i)).toURI().toURL();
    }
    return places;
  }
}
