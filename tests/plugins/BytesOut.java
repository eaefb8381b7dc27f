import java.util.Map;
import java.util.TreeMap;

import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.tools.attach.VirtualMachine;

/** What brokers have sent to consumers, by process id and topic, as each broker itself counts it. */
public class BytesOut {
    public static void main(String[] processes) throws Exception {
        Map<String, Map<String, Long>> bytes = new TreeMap<>();
        for (String process : processes) {
            VirtualMachine machine = VirtualMachine.attach(process);
            String address = machine.startLocalManagementAgent();
            machine.detach();
            try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
                MBeanServerConnection beans = connector.getMBeanServerConnection();
                Map<String, Long> byTopic = new TreeMap<>();
                ObjectName every = new ObjectName("kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=*");
                for (ObjectName bean : beans.queryNames(every, null)) {
                    byTopic.put(bean.getKeyProperty("topic"), (Long) beans.getAttribute(bean, "Count"));
                }
                bytes.put(process, byTopic);
            }
        }
        System.out.print(new ObjectMapper().writeValueAsString(bytes));
    }
}
