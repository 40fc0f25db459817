package example.orders;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The bills, by the id of the order. */
public class Ledger {
    private final Map<String, Integer> bills = new HashMap<>();
    private final List<String> repeated = new ArrayList<>();

    /** Bills an order, unless it has a bill. */
    public synchronized void bill(String order, int cents) {
        if (bills.putIfAbsent(order, cents) != null) {
            repeated.add(order);
        }
        notifyAll();
    }

    /** The orders that arrived again after they were billed. */
    public synchronized List<String> repeated() {
        return List.copyOf(repeated);
    }

    /** Waits until all of these orders are billed. Returns false when the time is over. */
    public synchronized boolean waitFor(Collection<String> orders) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!bills.keySet().containsAll(orders)) {
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                return false;
            }
            TimeUnit.NANOSECONDS.timedWait(this, left);
        }
        return true;
    }
}
