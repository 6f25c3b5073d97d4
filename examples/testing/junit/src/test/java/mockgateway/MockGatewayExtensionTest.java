package mockgateway;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Which namespace a parameter is, wherever it is. */
@ExtendWith(MockGatewayExtension.class)
class MockGatewayExtensionTest {
    private static final String ALICE = "alice@example.test";

    private static final Set<String> namespacesOfTests = ConcurrentHashMap.newKeySet();
    private static MockGateway ofClass;

    private final MockGateway ofConstructor;

    MockGatewayExtensionTest(MockGateway gateway) {
        ofConstructor = gateway;
    }

    @BeforeAll
    static void theClassChangesItsOwnNamespace(MockGateway gateway) {
        ofClass = gateway;
        lockAlice(gateway);
    }

    @BeforeEach
    void methodsAroundATestHaveItsNamespace(MockGateway gateway) {
        assertSame(ofConstructor, gateway);
    }

    @RepeatedTest(2)
    void aTestHasANamespaceOfItsOwn(MockGateway gateway) {
        isOfThisTestAlone(gateway);
    }

    @Nested
    class Inner {
        private static MockGateway ofInnerClass;

        @BeforeAll
        static void aClassInAClassHasANamespaceOfItsOwn(MockGateway gateway) {
            ofInnerClass = gateway;
            lockAlice(gateway);
        }

        @Test
        void aTestInAClassInAClassHasOneToo(MockGateway gateway) {
            assertNotEquals(ofClass.header(), ofInnerClass.header());
            isOfThisTestAlone(gateway);
        }
    }

    @AfterAll
    static void theNamespacesOfTestsHaveEnded(MockGateway gateway) {
        assertSame(ofClass, gateway);
        var left = new HashSet<>(gateway.control("GET", "/namespaces", null).findValuesAsText("name"));
        assertTrue(left.contains(ofClass.header()), left::toString);
        left.retainAll(namespacesOfTests);
        assertEquals(Set.of(), left);
    }

    private void isOfThisTestAlone(MockGateway gateway) {
        assertSame(ofConstructor, gateway);
        assertTrue(namespacesOfTests.add(gateway.header()));
        // No class and no other test has changed it.
        assertEquals("active", gateway.users.get(ALICE).state());
        lockAlice(gateway);
    }

    private static void lockAlice(MockGateway gateway) {
        gateway.users.change(ALICE, Map.of("state", "locked"));
    }
}
