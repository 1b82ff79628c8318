import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** DynamoDB Local in memory, on a free port of loopback alone, until its input ends. */
public class Loopback {
    public static void main(String[] arguments) throws Exception {
        // Its own command line listens on every interface, and reports to AWS that it runs.
        // One store for all access keys: moto gives some tests another key, and clients keep it.
        String[] options = {"-inMemory", "-sharedDb", "-disableTelemetry"};
        DynamoDBProxyServer local = ServerRunner.createServerFromCommandLineArgs(options);
        Field field = DynamoDBProxyServer.class.getDeclaredField("server");
        field.setAccessible(true);
        ServerConnector connector = (ServerConnector) ((Server) field.get(local)).getConnectors()[0];
        connector.setHost("127.0.0.1");
        connector.setPort(0);
        local.start();
        System.out.println("port " + connector.getLocalPort());
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
