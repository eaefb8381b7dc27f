import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.tools.attach.VirtualMachine;

/**
 * Prints a metric of brokers, by process id and topic.
 *
 * Arguments: the metric, such as BytesOutPerSec, and the process ids.
 */
public class BrokerBytes {
    public static void main(String[] arguments) throws Exception {
        Map<String, Map<String, Long>> bytes = new TreeMap<>();
        for (String process : Arrays.asList(arguments).subList(1, arguments.length)) {
            VirtualMachine machine = VirtualMachine.attach(process);
            String address = machine.startLocalManagementAgent();
            machine.detach();
            try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
                MBeanServerConnection beans = connector.getMBeanServerConnection();
                Map<String, Long> byTopic = new TreeMap<>();
                ObjectName every = new ObjectName("kafka.server:type=BrokerTopicMetrics,name=" + arguments[0] + ",topic=*");
                for (ObjectName bean : beans.queryNames(every, null)) {
                    byTopic.put(bean.getKeyProperty("topic"), (Long) beans.getAttribute(bean, "Count"));
                }
                bytes.put(process, byTopic);
            }
        }
        System.out.print(new ObjectMapper().writeValueAsString(bytes));
    }
}
