// A device in Java, written from docs/wire.md alone: no library, and nothing of the Python code.
//
//   java Device.java FOLDER vectors                        hold docs/vectors against this program
//   java Device.java FOLDER send ADDRESS SECRET ANSWERS [TOKEN]   take part: fetch, check, draw, send
//
// FOLDER is docs/vectors: its protocol.json has limits, key lists and final problems. SECRET is 64
// hexadecimal digits, ANSWERS a JSON object. It keeps no ledger: it is for tests.

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.text.Normalizer;
import java.util.*;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.*;
import java.util.zip.GZIPInputStream;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Device {
    static final long W = 1L << 52;

    // --- JSON, with whole numbers and floats told apart ------------------------------------------

    static class Json {
        final String text;
        int at = 0;

        Json(String text) { this.text = text; }

        static Object parse(String text) {
            Json json = new Json(text);
            Object found = json.value();
            json.skip();
            require(json.at == text.length(), "there is more after the JSON");
            return found;
        }

        void skip() { while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++; }

        boolean took(char c) {
            skip();
            boolean found = at < text.length() && text.charAt(at) == c;
            if (found) at++;
            return found;
        }

        Object value() {
            skip();
            char c = text.charAt(at);
            if (c == '"') return string();
            if (took('{')) {
                Map<String, Object> map = new LinkedHashMap<>();
                if (took('}')) return map;
                do {
                    skip();
                    String key = string();
                    require(took(':') && !map.containsKey(key), "another form: a key twice");
                    map.put(key, value());
                } while (took(','));
                require(took('}'), "an object does not end");
                return map;
            }
            if (took('[')) {
                List<Object> list = new ArrayList<>();
                if (took(']')) return list;
                do list.add(value()); while (took(','));
                require(took(']'), "a list does not end");
                return list;
            }
            int start = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
            String word = text.substring(start, at);
            if (word.equals("null")) return null;
            if (word.equals("true") || word.equals("false")) return word.equals("true");
            if (word.matches("-?[0-9]+")) return Long.valueOf(word);
            return Double.valueOf(word);
        }

        String string() {
            require(text.charAt(at++) == '"', "no text");
            StringBuilder found = new StringBuilder();
            while (text.charAt(at) != '"') {
                char c = text.charAt(at++);
                if (c != '\\') { found.append(c); continue; }
                c = text.charAt(at++);
                int place = "bfnrt".indexOf(c);
                if (c == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at, at += 4), 16));
                } else found.append(place < 0 ? c : "\b\f\n\r\t".charAt(place));
            }
            at++;
            return found.toString();
        }

        static String write(Object value) {  // in the one form
            if (value instanceof Map<?, ?> map) {
                return map.entrySet().stream().map(e -> write(e.getKey()) + ":" + write(e.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
            }
            if (value instanceof List<?> list) {
                return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
            }
            if (value instanceof Double number) return shortest(number);
            return value instanceof String text ? quoted(text) : String.valueOf(value);
        }

        static String quoted(String text) {
            StringBuilder found = new StringBuilder("\"");
            for (char c : text.toCharArray()) {
                int place = "\b\f\n\r\t\"\\".indexOf(c);
                if (place >= 0) found.append('\\').append("bfnrt\"\\".charAt(place));
                else if (c < 32 || c > 126) found.append(String.format("\\u%04x", (int) c));
                else found.append(c);
            }
            return found.append('"').toString();
        }

        static String shortest(double number) {
            if (number == 0) return 1 / number < 0 ? "-0.0" : "0.0";
            int digits = 0;
            while (Double.parseDouble(String.format(Locale.ROOT, "%." + digits + "e", number)) != number) digits++;
            String[] parts = String.format(Locale.ROOT, "%." + digits + "e", number).split("e");
            int exponent = Integer.parseInt(parts[1]);
            if (exponent >= 16 || exponent < -4) {
                return parts[0] + String.format("e%s%02d", exponent < 0 ? "-" : "+", Math.abs(exponent));
            }
            String plain = new BigDecimal(parts[0]).scaleByPowerOfTen(exponent).toPlainString();
            return plain.contains(".") ? plain : plain + ".0";
        }
    }

    static void require(boolean fine, String otherwise) {
        if (!fine) throw new IllegalArgumentException(otherwise);
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> map(Object value) { return (Map<String, Object>) value; }

    @SuppressWarnings("unchecked")
    static <T> List<T> list(Object value) { return (List<T>) value; }

    static long whole(Map<String, Object> map, String key) { return (Long) map.get(key); }

    static String text(Map<String, Object> map, String key, String usual) {
        return (String) map.getOrDefault(key, usual);
    }

    // --- section 1: the document -----------------------------------------------------------------

    /** What docs/vectors/protocol.json says: the same for every language. */
    static Map<String, Object> protocol;

    static long limit(String name) { return whole(map(protocol.get("limits")), name); }

    /** The keys of an object of a document: each a list of its name and, where it has one, its default. */
    static List<List<Object>> keys(String what) { return list(map(protocol.get("keys")).get(what)); }

    static Map<String, Object> kind(Object mechanism) {
        Map<String, Object> found = map(map(protocol.get("laws")).get(mechanism));
        require(found != null, "an unknown law: " + mechanism);
        return found;
    }

    final String digest;
    final Map<String, Object> collection;
    final List<Map<String, Object>> attributes, cells;
    final List<String> levels;
    final String strategy;

    Device(String data, String accepted) throws Exception {
        require(data.getBytes(StandardCharsets.UTF_8).length <= limit("document_bytes"), "the document is too large");
        Map<String, Object> outer = map(Json.parse(data));
        require(outer.keySet().containsAll(known(outer, keys("document"))), "a key is missing");
        String text = (String) outer.get("collection");
        digest = hex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
        require(digest.equals(outer.get("digest")), "the digest is not that of the text");
        collection = map(Json.parse(text));
        require(outer.get("format").equals(protocol.get("format")), "a newer format");
        require(Objects.equals(collection.get("wire"), protocol.get("wire")), "a newer format");
        require(Json.write(collection).equals(text), "another form");
        checkNumbers(collection, "");
        known(collection, "collection", true);
        require(collection.get("campaign").equals(outer.get("campaign")), "two names");
        checkTerms(outer);
        attributes = list(collection.get("attributes"));
        cells = list(collection.get("cells"));
        require(cells.size() <= limit("cells") && attributes.size() <= limit("attributes"), "too many of them");
        for (Map<String, Object> one : attributes) checkAttribute(one);
        checkChecks();
        checkTables();
        for (Map<String, Object> one : cells) {
            known(one, "cell", true);
            checkKeys(one);
        }
        levels = collection.containsKey("levels") ? new ArrayList<>(map(collection.get("levels")).keySet()) : null;
        strategy = (String) collection.get("strategy");
        checkAsking();
        require(Objects.equals(collection.get("accept_loss"), accepted), "a loss that nobody has accepted");
        checkCells();
        checkLosses();
    }

    /** The keys that an object has to have: those without a default, and others that differ from it. */
    static Set<String> known(Map<String, Object> found, String what, boolean inOrder) {
        Set<String> wanted = known(found, keys(what));
        require(wanted.containsAll(found.keySet()), "an unknown key of " + what);
        require(found.keySet().containsAll(wanted), "a key of " + what + " is missing");
        if (!inOrder) return wanted;
        require(List.copyOf(wanted).equals(List.copyOf(found.keySet())), "another form: keys in another order");
        for (List<Object> key : keys(what)) {
            boolean usual = key.size() > 1 && found.containsKey((String) key.get(0));
            boolean out = !usual || !Objects.equals(found.get(key.get(0)), key.get(1));
            require(out, "another form: a default is not left out: " + key.get(0));
        }
        return wanted;
    }

    static Set<String> known(Map<String, Object> found, List<List<Object>> keys) {
        Set<String> wanted = new LinkedHashSet<>();
        for (List<Object> key : keys) {
            String name = (String) key.get(0);
            if (key.size() == 1 || found.containsKey(name)) wanted.add(name);
        }
        return wanted;
    }

    /** The keys of a law and of its parameters; those of laws inside it, too. */
    static void checkKeys(Map<String, Object> cell) {
        Map<String, Object> kind = kind(cell.get("mechanism")), law = map(cell.get("law"));
        List<String> parameters = List.copyOf(map(kind.get("parameters")).keySet());
        require(List.copyOf(map(cell.get("parameters")).keySet()).equals(parameters), "other parameters");
        require(List.copyOf(law.keySet()).equals(List.copyOf(known(law, list(kind.get("law"))))), "other keys of a law");
        for (String inside : List.of("inner", "parts")) {
            for (Object one : Device.<Object>list(law.getOrDefault(inside, List.of()))) checkKeys(map(one));
        }
    }

    /** Floats are written with a point, whole numbers without: by their keys. */
    static void checkNumbers(Object value, String key) {
        if (value instanceof Map<?, ?> map) {
            for (Map.Entry<?, ?> one : map.entrySet()) {
                checkNumbers(one.getValue(), key.equals("levels") ? key : (String) one.getKey());
            }
        } else if (value instanceof List<?> list) {
            boolean pair = key.equals("settings") && !list.isEmpty() && list.get(0) instanceof String;
            for (Object one : list) checkNumbers(one, pair ? (String) list.get(0) : key);
        } else if (value instanceof Number) {
            boolean point = list(protocol.get("floats")).contains(key);
            require(point == value instanceof Double, "another form: a number's point, at " + key);
        }
    }

    static final String MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})";

    static void checkTerms(Map<String, Object> outer) {
        require(whole(outer, "cohort") >= limit("least_cohort"), "terms: too small a cohort");
        require(whole(outer, "people") >= 1 && whole(outer, "version") >= 1, "terms: nobody");
        require(list(protocol.get("uploads")).contains(outer.get("upload")), "terms: an unknown upload");
        List<Object> origins = list(outer.getOrDefault("origins", List.of()));
        require(origins.size() <= limit("origins"), "terms: too many origins");
        for (String key : List.of("opens", "closes")) {
            String moment = (String) outer.get(key);
            if (moment == null) continue;
            require(moment.matches(MOMENT), "terms: no moment");
            try {
                java.time.OffsetDateTime.parse(moment);
            } catch (java.time.format.DateTimeParseException problem) {
                throw new IllegalArgumentException("terms: no such moment");
            }
        }
    }

    /** How many are asked, how often, at which levels, for how much. */
    void checkAsking() {
        double epsilon = (Double) collection.get("epsilon");
        require(epsilon >= number("least_epsilon") && epsilon <= number("epsilon"), "epsilon is out of range");
        Object most = collection.get("limit"), chosen = collection.getOrDefault("chosen", "freely");
        require(most == null || (Double) most > 0, "a limit of nothing");
        require(List.of("sample", "split", "together").contains(strategy), "asking: no such strategy");
        int d = attributes.size(), sample = sample();
        require(sample >= 1 && sample <= d && (strategy.equals("sample") || sample == 1), "asking: sample");
        List<Long> ends = list(collection.get("ends"));
        if (ends != null) {
            require(sample == 1 && strategy.equals("sample") && ends.size() == d - 1, "asking: ends");
            long last = 0;
            for (long end : ends) {
                require(end > last && end < W, "asking: ends go up");
                last = end;
            }
        }
        require(levels == null || !together(), "asking: levels together");
        boolean missing = attributes.stream().anyMatch(one -> Boolean.TRUE.equals(one.get("missing")));
        require(!missing || !together(), "asking: missing together");
        require(chosen.equals("freely") || chosen.equals("by lot") && levels != null, "levels: no such choice");
        long names = attributes.stream().map(one -> one.get("name")).distinct().count();
        require(names == d, "two attributes of one name");
        if (levels == null) return;
        require(!levels.isEmpty() && levels.size() <= limit("levels"), "levels: how many");
        for (String level : levels) {
            double factor = (Double) map(collection.get("levels")).get(level);
            require(factor > 0 && factor <= 1, "levels: a part of epsilon");
            require(epsilon * factor >= number("least_epsilon"), "levels: too small a part");
        }
    }

    static double number(String name) { return ((Number) map(protocol.get("limits")).get(name)).doubleValue(); }

    static final List<String> FIT = List.of("fitted", "did not fit");

    /** What a check checks is an attribute that people answer, once, and may be missing alike. */
    void checkChecks() {
        Map<String, Object> open = new HashMap<>();
        for (Map<String, Object> one : attributes) {
            if (text(one, "checks", "").isEmpty()) open.put(text(one, "name", ""), one.getOrDefault("missing", false));
        }
        for (Map<String, Object> one : attributes) {
            String name = text(one, "checks", "");
            if (!name.isEmpty()) {
                require(one.getOrDefault("missing", false).equals(open.remove(name)), "checks: not of an attribute");
            }
        }
    }

    static boolean isTable(Map<String, Object> one) { return "table".equals(one.get("kind")); }

    /** A table is of two attributes that people answer; nobody is asked two questions, or one again. */
    void checkTables() {
        List<Map<String, Object>> tables = attributes.stream().filter(Device::isTable).toList();
        for (Map<String, Object> table : tables) {
            List<String> of = list(table.get("of"));
            require(new HashSet<>(of).size() == 2 && of.size() == 2, "table: of two attributes");
            require(table.get("name").equals(String.join(" by ", of)), "table: another name");
            List<List<Double>> cuts = list(table.get("cuts"));
            require(cuts.size() == 2, "table: cuts for both");
            for (int side = 0; side < 2; side++) checkSide(attribute(of.get(side)), cuts.get(side));
            require(cellsOf(table) <= limit("attribute_labels"), "table: too large");
        }
        require(tables.stream().mapToLong(this::cellsOf).sum() <= limit("labels"), "table: too large");
        if (tables.isEmpty()) return;
        boolean once = cells.stream().noneMatch(Device::keeps) && !collection.containsKey("levels");
        require(once && "sample".equals(collection.get("strategy")) && sample() == 1, "table: asked alone, once");
    }

    void checkSide(Map<String, Object> one, List<Double> cuts) {
        boolean open = one != null && !isTable(one) && text(one, "checks", "").isEmpty();
        require(open && !"graded".equals(one.get("kind")), "table: of attributes that people answer");
        if (one.containsKey("labels")) {
            require(cuts.isEmpty(), "table: labels are not cut");
            return;
        }
        double below = end(one, "low"), scaled = Double.NEGATIVE_INFINITY;
        require(!cuts.isEmpty(), "table: cuts");
        for (double cut : cuts) {
            require(cut > below && cut < end(one, "high") && scaled(one, cut) > scaled, "table: cuts go up");
            require(!Double.valueOf(-0.0).equals(cut), "table: cuts without a sign");
            below = cut;
            scaled = scaled(one, cut);
        }
    }

    Map<String, Object> attribute(String name) {
        return attributes.stream().filter(one -> name.equals(one.get("name"))).findAny().orElse(null);
    }

    /** How many items a side of a table has. */
    long side(Map<String, Object> table, int side) {
        Map<String, Object> one = attribute(Device.<String>list(table.get("of")).get(side));
        int bins = Device.<List<Double>>list(table.get("cuts")).get(side).size() + 1;
        int own = one.containsKey("labels") ? list(one.get("labels")).size() : bins;
        return own + (Boolean.TRUE.equals(one.get("missing")) ? 1 : 0);
    }

    long cellsOf(Map<String, Object> table) { return side(table, 0) * side(table, 1); }

    /** The cell of a table, from the encoded answers to its attributes. */
    long cell(Map<String, Object> table, List<Object> values) {
        long cell = 0;
        for (int side = 0; side < 2; side++) {
            String name = Device.<String>list(table.get("of")).get(side);
            Map<String, Object> one = attribute(name);
            Object value = values.get(attributes.indexOf(one));
            List<Double> cuts = Device.<List<Double>>list(table.get("cuts")).get(side);
            long place = value instanceof Long item ? item : value == null || ((Double) value).isNaN() ? cuts.size() + 1
                : cuts.stream().filter(cut -> scaled(one, cut) <= (Double) value).count();
            cell = cell * side(table, side) + place;
        }
        return cell;
    }

    /** The answers to all attributes; whether one fitted is said by the device itself. */
    List<Object> encodedAll(Map<String, Object> answers, Source words) {
        List<Object> values = new ArrayList<>();
        for (Map<String, Object> attribute : attributes) {
            if (isTable(attribute)) {
                values.add(null);
                continue;
            }
            String name = (String) attribute.get("name"), other = text(attribute, "checks", "");
            Map<String, Object> of = attributes.stream().filter(one -> one.get("name").equals(other)).findAny().orElse(null);
            values.add(of == null ? encoded(attribute, answers.get(name), words.of("spread", name))
                : (Object) fitted(of, answers.get(other)));
        }
        for (int at = 0; at < values.size(); at++) {
            if (isTable(attributes.get(at))) values.set(at, cell(attributes.get(at), values));
        }
        return values;
    }

    /** 0 where an answer fits, 1 where it does not, 2 where it is none. */
    static long fitted(Map<String, Object> attribute, Object raw) {
        int place = place(attribute, raw);
        if (attribute.containsKey("labels")) {
            String outside = text(attribute, "outside", "");
            boolean rest = list(attribute.get("labels")).contains(outside) && !List.of("spread", "refuse").contains(outside);
            return place == NONE ? 2 : place == UNKNOWN && !rest ? 1 : 0;
        }
        Double v = value(attribute, raw);
        if (v == null) return place == NONE || marked(attribute, raw) ? 2 : 1;
        return v < end(attribute, "low") || v > end(attribute, "high") ? 1 : 0;
    }

    static void checkAttribute(Map<String, Object> one) {
        known(one, "attribute", true);
        if (isTable(one)) {
            require(List.copyOf(one.keySet()).equals(List.of("name", "kind", "of", "cuts")), "table: other keys");
            return;
        }
        require(!one.containsKey("of") && !one.containsKey("cuts"), "table: of and cuts are a table's");
        List<String> labels = list(one.getOrDefault("labels", List.of()));
        List<String> markers = list(one.getOrDefault("markers", List.of()));
        List<String> texts = new ArrayList<>(labels);
        texts.addAll(markers);
        texts.addAll(List.of(text(one, "name", ""), text(one, "unit", ""), text(one, "outside", "")));
        boolean brief = texts.stream().allMatch(t -> t.codePointCount(0, t.length()) <= limit("text"));
        require(brief, "a text is too long");
        String kind = text(one, "kind", "number"), outside = text(one, "outside", "");
        boolean missing = Boolean.TRUE.equals(one.get("missing")), category = kind.equals("category");
        require(List.of("number", "category", "distribution", "graded").contains(kind), "no such kind");
        boolean open = one.get("low") == null && one.get("high") == null;
        if (category) {
            boolean apart = new HashSet<>(labels).size() == labels.size() && !labels.contains("");
            require(open && apart && labels.size() >= 2, "labels are all different");
            require(labels.size() <= limit("attribute_labels"), "too many labels");
        } else {
            require(labels.isEmpty() && one.get("low") != null && one.get("high") != null, "a number has a range");
            double low = (Double) one.get("low"), high = (Double) one.get("high");
            require(low < high && Double.isFinite(high - low), "low is below high");
            require(!Double.valueOf(-0.0).equals(low) && !Double.valueOf(-0.0).equals(high), "0 has no sign");
        }
        List<String> rules = new ArrayList<>(category ? labels : List.of());
        rules.addAll(List.of(category ? "spread" : "clamp", missing ? "no answer" : "refuse"));
        require(rules.contains(outside) && !(missing && outside.equals("refuse")), "no such rule");
        boolean fold = text(one, "case", "exact").equals("ignore");
        require(category || !fold, "case is for labels");
        List<String> keys = labels.stream().map(label -> tidy(label, fold)).toList();
        List<String> marks = markers.stream().map(marker -> tidy(marker, fold)).toList();
        boolean own = new HashSet<>(marks).size() == marks.size() && !marks.contains("");
        require(own && Collections.disjoint(keys, marks), "a marker is a label, or there twice");
        require(missing || marks.isEmpty(), "markers stand for no answer");
        require(!missing || Collections.disjoint(labels, List.of("no answer", "answered")), "a label of that name");
        boolean plain = outside.equals("spread") && !fold && marks.isEmpty();
        require(text(one, "checks", "").isEmpty() || category && labels.equals(FIT) && plain, "checks: other labels");
        long bins = (Long) one.getOrDefault("bins", 64L);
        require(bins >= 2 && bins <= 512 && Long.bitCount(bins) == 1, "bins are a power of two");
    }

    boolean together() { return strategy.equals("together"); }

    int groups() { return together() ? 1 : attributes.size(); }

    int perGroup() { return levels == null ? 1 : levels.size(); }

    int sample() {
        return (int) (long) (Long) collection.getOrDefault("sample", 1L);
    }

    void checkCells() {
        require(cells.size() == groups() * perGroup(), "cells are missing, or there are too many");
        for (int n = 0; n < cells.size(); n++) {
            int group = n / perGroup();
            List<Long> own = together() ? LongStream.range(0, attributes.size()).boxed().toList()
                : List.of((long) group);
            Object level = levels == null ? null : (Object) (long) (n % perGroup());
            require(cells.get(n).get("attributes").equals(own), "a cell of other attributes");
            require(Objects.equals(cells.get(n).get("level"), level), "a cell of another level");
            if (!together()) checkDomain(attributes.get(group), cells.get(n));
        }
        boolean again = cells.stream().allMatch(Device::keeps);
        require(again || !collection.containsKey("rounds"), "nothing is permanent");
        Object every = collection.get("every");
        require(every == null || again && List.of("day", "week", "month").contains(every), "no such period");
        Object first = collection.get("first"), spell = collection.get("spell");
        require((first == null) == (spell == null) && (first == null || every != null), "half a spell");
        require(first == null || levels == null, "spells take no levels");
        boolean lots = "by lot".equals(collection.get("chosen"));
        require(!lots || !collection.containsKey("rounds"), "levels by lot are for one round");
        if (spell == null) return;
        long length = (Long) spell, rounds = (Long) collection.getOrDefault("rounds", 1L);
        require((Long) first >= 0 && length >= 1 && length <= rounds, "no such spells");
    }

    /** Whether a law is for a question that is asked again. */
    static boolean keeps(Map<String, Object> cell) {
        return Boolean.TRUE.equals(kind(cell.get("mechanism")).get("memoised"));
    }

    void checkDomain(Map<String, Object> attribute, Map<String, Object> cell) {
        Object k = map(cell.get("parameters")).get("k");
        if (isTable(attribute)) {
            require(Objects.equals(k, cellsOf(attribute)), "a law for other items");
            return;
        }
        boolean missing = Boolean.TRUE.equals(attribute.get("missing"));
        if (attribute.containsKey("labels")) {
            long items = list(attribute.get("labels")).size() + (missing ? 1 : 0);
            require(Objects.equals(k, items), "a law for other items");
        } else require(k == null && missing == cell.get("mechanism").equals("or-none"), "a law for other answers");
    }

    // --- section 4.6: what laws cost -------------------------------------------------------------

    record Ratio(BigInteger above, BigInteger below) {
        static Ratio of(BigInteger a, BigInteger b) {
            return a.compareTo(b) < 0 ? new Ratio(b, a) : new Ratio(a, b);
        }

        static Ratio of(long a, long b) { return of(BigInteger.valueOf(a), BigInteger.valueOf(b)); }

        Ratio times(Ratio o) { return new Ratio(above.multiply(o.above), below.multiply(o.below)); }

        boolean larger(Ratio o) { return above.multiply(o.below).compareTo(o.above.multiply(below)) > 0; }

        boolean keeps(double epsilon) {
            BigDecimal exact = new BigDecimal(epsilon);
            BigInteger m = exact.unscaledValue(), n = BigInteger.TEN.pow(exact.scale());
            BigInteger one = BigInteger.ONE.shiftLeft(256), term = one, sum = one;
            for (int i = 1; term.signum() > 0; i++) {
                term = term.multiply(m).divide(n.multiply(BigInteger.valueOf(i)));
                sum = sum.add(term);
            }
            return below.signum() > 0 && above.multiply(one).compareTo(below.multiply(sum)) <= 0;
        }
    }

    static final Ratio NOTHING = Ratio.of(1, 1);

    /** What a law costs: the largest ratio, whether its promises are kept, and the words for accept_loss. */
    record Verdict(Ratio ratio, boolean kept, String words) {
        static Verdict of(Ratio ratio, double promised) {
            return new Verdict(ratio, ratio.keeps(promised), costs(ratio, "", promised));
        }
    }

    /** The smallest double that is not below the logarithm of a ratio. */
    static double logAbove(Ratio ratio) {
        if (ratio.below().signum() == 0) return Double.POSITIVE_INFINITY;
        BigDecimal quotient = new BigDecimal(ratio.above()).divide(new BigDecimal(ratio.below()), new MathContext(60));
        double near = Math.log1p(quotient.subtract(BigDecimal.ONE).doubleValue());
        while (!ratio.keeps(near)) near = Math.nextUp(near);
        while (near > 0 && ratio.keeps(Math.nextDown(near))) near = Math.nextDown(near);
        return near;
    }

    static String costs(Ratio ratio, String where, double promised) {
        double log = logAbove(ratio);
        String amount = Double.isInfinite(log) ? "an infinite loss" : "a loss of " + Json.shortest(log);
        return amount + where + " where " + Json.shortest(promised) + " is promised";
    }

    void checkLosses() {
        String words = (String) collection.get("accept_loss");
        Ratio[] all = new Ratio[cells.size()];
        boolean breaks = false;
        for (int n = 0; n < all.length; n++) {
            Verdict found = verdict(cells.get(n));
            boolean broken = Boolean.FALSE.equals(kind(cells.get(n).get("mechanism")).get("keeps_promise"));
            require(found.kept() || broken, "it costs " + found.words());
            require(found.kept() || found.words().equals(words), "accept_loss does not say: " + found.words());
            all[n] = found.ratio();
            breaks |= broken;
        }
        double epsilon = (Double) collection.get("epsilon");
        if (words != null) {
            require(breaks, "accept_loss is for a law that breaks its promise");
            require(budgets(epsilon), "the budgets of a report cost more than epsilon");
            return;  // the person has agreed to what it costs
        }
        require(whole(all, -1).keeps(epsilon), "a report costs more than epsilon");
        for (int level = 0; levels != null && level < levels.size(); level++) {
            double factor = (Double) map(collection.get("levels")).get(levels.get(level));
            double part = epsilon * factor;
            BigDecimal exact = new BigDecimal(epsilon).multiply(new BigDecimal(factor));
            if (new BigDecimal(part).compareTo(exact) > 0) part = Math.nextDown(part);
            require(whole(all, level).keeps(part), "a level costs more than its part");
        }
    }

    /** Whether the budgets of the costliest laws that one report names come to epsilon at most. */
    boolean budgets(double epsilon) {
        List<BigDecimal> most = new ArrayList<>();
        for (int group = 0; group < groups(); group++) {
            double largest = 0;
            for (int l = 0; l < perGroup(); l++) largest = Math.max(largest, budget(cells.get(group * perGroup() + l)));
            most.add(new BigDecimal(largest));
        }
        most.sort(Comparator.reverseOrder());
        int named = strategy.equals("sample") ? sample() : most.size();
        BigDecimal sum = most.stream().limit(named).reduce(BigDecimal.ZERO, BigDecimal::add);
        return sum.compareTo(new BigDecimal(epsilon)) <= 0;
    }

    /** What a cell may cost: of a graded law, the largest of its matrix. */
    static double budget(Map<String, Object> cell) {
        Object epsilon = map(cell.get("parameters")).get("epsilon");
        if (epsilon instanceof Double one) return one;
        Map<String, Object> law = map(cell.get("law"));
        if (cell.get("mechanism").equals("graded-items")) {
            double[][] pairs = matrix(list(epsilon), map(cell.get("parameters")).get("semantics"));
            double most = 0;
            for (int u = 0; u < pairs.length; u++) {
                for (int v = 0; v < pairs.length; v++) if (u != v) most = Math.max(most, pairs[u][v]);
            }
            return most;
        }
        double[][] matrix = budgets(law, map(cell.get("parameters")), 0, new ArrayList<>());
        return Arrays.stream(matrix).flatMapToDouble(Arrays::stream).max().getAsDouble();
    }

    Ratio whole(Ratio[] all, int level) {
        List<Ratio> worst = new ArrayList<>();
        for (int group = 0; group < groups(); group++) {
            Ratio most = NOTHING;
            for (int l = 0; l < perGroup(); l++) {
                Ratio one = all[group * perGroup() + l];
                if ((level < 0 || level == l) && one.larger(most)) most = one;
            }
            worst.add(most);
        }
        return product(worst, strategy.equals("sample") ? sample() : worst.size());
    }

    static Ratio product(List<Ratio> found, int largest) {
        List<Ratio> sorted = new ArrayList<>(found);
        sorted.sort((a, b) -> a.larger(b) ? -1 : b.larger(a) ? 1 : 0);
        return sorted.stream().limit(largest).reduce(NOTHING, Ratio::times);
    }

    static void within(Map<String, Object> map, String key, long low, long high) {
        require(whole(map, key) >= low && whole(map, key) <= high, "shape: " + key + " is " + whole(map, key));
    }

    /** The smallest power of two that is not below a number. */
    static long powerOfTwo(long least) { return least < 2 ? 1 : Long.highestOneBit(least - 1) * 2; }

    /** Whether lists, alphabets and sets have the sizes that the steps need. */
    static void checkShape(String name, Map<String, Object> law, Map<String, Object> parameters) {
        long k = parameters.get("k") instanceof Long n ? n : 0, d = parameters.get("d") instanceof Long n ? n : 0;
        require(!parameters.containsKey("k") || k >= 2 && k <= 1 << 16, "shape: k");
        switch (name) {
            case "sue": case "oue": {
                within(law, "yes", 1, (1L << 32) - 1);
                within(law, "no", 1, (1L << 32) - 1);
                return;
            }
            case "olh": {
                within(law, "cells", 2, 1 << 16);
                require(Set.of(65521L, (1L << 31) - 1).contains(law.get("prime")), "shape: prime");
                within(law, "prime", k + 1, (1L << 31) - 1);
                return;
            }
            case "hadamard": within(law, "rows", powerOfTwo(k), powerOfTwo(k)); return;
            case "hadamard-response": within(law, "symbols", powerOfTwo(k + 1), powerOfTwo(k + 1)); return;
            case "bassily-smith": {
                within(law, "rows", 2, 1 << 22);
                within(law, "seed", 0, (1L << 32) - 1);
                return;
            }
            case "subset": checkSets(law, k, (Double) parameters.get("epsilon")); return;
            case "projective": {
                long r = whole(law, "prime"), t = whole(law, "dimension");
                within(law, "dimension", 2, 26);
                require(BigInteger.valueOf(r).isProbablePrime(50), "shape: prime");
                require(Math.pow(r, t) <= 1 << 26 && (power(r, (int) t) - 1) / (r - 1) >= k, "shape: points");
                return;
            }
            case "block": {
                within(law, "size", 1, Math.min(12, d));
                within(law, "agreements", whole(law, "size") / 2 + 1, whole(law, "size"));
                within(law, "thresholds", 64, 64);
                return;
            }
            case "duchi-multi": case "duchi-multi-published": within(law, "bits", d, Math.min(d, 1024)); return;
            default:
        }
    }

    /** The size of a set is next to k / (e^epsilon + 1), and its first coins follow from it. */
    static void checkSets(Map<String, Object> law, long k, double epsilon) {
        double ideal = k / (Math.exp(epsilon) + 1);
        within(law, "size", Math.max(1, (long) Math.floor(ideal - 1e-6)), Math.max(1, (long) Math.ceil(ideal + 1e-6)));
        double size = whole(law, "size"), few = Math.max(0, size - Math.sqrt(size * (1 - size / k)));
        int digits = 3 + (64 - Long.numberOfLeadingZeros(k)) / 2;
        long level = (long) Math.floor(few / k * (1L << digits));
        while (digits > 0 && level % 2 == 0) {
            level /= 2;
            digits--;
        }
        within(law, "level", level, level);
        within(law, "digits", digits, digits);
    }

    static Verdict verdict(Map<String, Object> cell) {
        checkShape((String) cell.get("mechanism"), map(cell.get("law")), map(cell.get("parameters")));
        Map<String, Object> law = map(cell.get("law")), parameters = map(cell.get("parameters"));
        if (cell.get("mechanism").equals("graded-items")) return itemsLoss(law, parameters);
        if (law.containsKey("weights")) return tableLoss(law, parameters);
        Ratio found = plainLoss((String) cell.get("mechanism"), law, parameters);
        return Verdict.of(found, (Double) parameters.get("epsilon"));
    }

    /** The largest ratio of a law inside another. */
    static Ratio loss(Map<String, Object> cell) {
        require(!Set.of("harmony", "sampled", "hybrid-composition").contains(cell.get("mechanism"))
            && !map(cell.get("law")).containsKey("places"), "no such law is inside another");
        return verdict(cell).ratio();
    }

    static Ratio plainLoss(String name, Map<String, Object> law, Map<String, Object> parameters) {
        long k = parameters.get("k") instanceof Long n ? n : 0;
        switch (name) {
            case "grr": return response(law, k);
            case "olh": return response(law, whole(law, "cells"));
            case "hadamard": case "hadamard-response": case "bassily-smith": return response(law, 2);
            case "sue": case "oue": {
                BigInteger half = BigInteger.ONE.shiftLeft(32), yes = big(law, "yes"), no = big(law, "no");
                return Ratio.of(yes.multiply(half.subtract(no)), no.multiply(half.subtract(yes)));
            }
            case "subset": return odds(law, "holds", BigInteger.valueOf(k), big(law, "size"));
            case "memoised": return memoisedLoss(law, parameters, k);
            case "memoised-bit": return memoisedLoss(law, parameters, 2);
            case "projective": {
                BigInteger r = big(law, "prime"), less = r.subtract(BigInteger.ONE);
                int t = (int) whole(law, "dimension");
                BigInteger points = r.pow(t).subtract(BigInteger.ONE).divide(less);
                return odds(law, "inside", points, r.pow(t - 1).subtract(BigInteger.ONE).divide(less));
            }
            case "block": {
                int size = (int) whole(law, "size"), agreements = (int) whole(law, "agreements");
                long likely = IntStream.range(0, 1 << size)
                    .filter(n -> size - Integer.bitCount(n) >= agreements).count();
                require(likely == whole(law, "likely"), "another number of likely patterns");
                return odds(law, "inside", BigInteger.ONE.shiftLeft(size), BigInteger.valueOf(likely));
            }
            case "duchi-multi": case "duchi-multi-published": {
                int d = (int) whole(law, "bits");
                BigInteger agree = BigInteger.ZERO, choose = BigInteger.ONE;
                for (int a = 0; a <= d; a++) {
                    if (2 * a > d) agree = agree.add(choose);
                    choose = choose.multiply(BigInteger.valueOf(d - a)).divide(BigInteger.valueOf(a + 1));
                }
                return odds(law, "inside", BigInteger.ONE.shiftLeft(d), agree);
            }
            case "harmony": case "sampled": {
                List<Map<String, Object>> inner = list(law.get("inner"));
                List<Ratio> each = Device.<Long>list(law.get("attributes")).stream()
                    .map(n -> loss(inner.get(n.intValue()))).toList();
                return product(each, (int) whole(law, "sample"));
            }
            case "hybrid-composition": {
                List<Map<String, Object>> parts = list(law.get("parts"));
                return product(parts.stream().map(Device::loss).toList(), parts.size());
            }
            default: throw new IllegalArgumentException("an unknown law: " + name);
        }
    }

    static BigInteger big(Map<String, Object> map, String key) { return BigInteger.valueOf(whole(map, key)); }

    /** inside (all - some) / ((W - inside) some). */
    static Ratio odds(Map<String, Object> law, String key, BigInteger all, BigInteger some) {
        BigInteger inside = big(law, key), outside = BigInteger.valueOf(W).subtract(inside);
        return Ratio.of(inside.multiply(all.subtract(some)), outside.multiply(some));
    }

    static Ratio response(Map<String, Object> law, long k) {
        require(whole(law, "truth") == W - (k - 1) * whole(law, "lie"), "truth is not what is left");
        return Ratio.of(whole(law, "truth"), whole(law, "lie"));
    }

    static Ratio memoisedLoss(Map<String, Object> law, Map<String, Object> parameters, long k) {
        Map<String, Object> kept = map(law.get("permanent"));
        require(response(kept, k).keeps((Double) parameters.get("permanent")), "the permanent answer costs more");
        BigInteger p = big(kept, "truth"), l = big(kept, "lie"), keep = big(law, "keep"), swap = big(law, "swap");
        require(whole(law, "keep") == W - (k - 1) * whole(law, "swap"), "keep is not what is left");
        BigInteger own = p.multiply(keep).add(l.multiply(swap).multiply(BigInteger.valueOf(k - 1)));
        BigInteger others = l.multiply(swap).multiply(BigInteger.valueOf(k - 2));
        BigInteger other = l.multiply(keep).add(p.multiply(swap)).add(others);
        return Ratio.of(own, other);
    }

    /** Items with budgets of their own: each two rows against what they may cost. */
    static Verdict itemsLoss(Map<String, Object> law, Map<String, Object> parameters) {
        List<List<Long>> weights = list(law.get("weights"));
        List<Double> epsilon = list(parameters.get("epsilon"));
        int k = (int) whole(parameters, "k"), columns = weights.get(0).size();
        require(weights.size() == k && epsilon.size() == k && columns > 1 && k * columns <= 1 << 15, "shape: rows");
        for (List<Long> row : weights) {
            require(row.size() == columns && row.stream().allMatch(n -> n >= 0 && n <= W), "shape: a row of weights");
            require(row.stream().mapToLong(n -> n).sum() == W, "a row that does not add up");
        }
        List<List<BigInteger>> rows = weights.stream()
            .map(row -> row.stream().map(BigInteger::valueOf).toList()).toList();
        List<List<Integer>> items = IntStream.range(0, k).boxed().map(List::of).toList();
        return pairwise(rows, items, matrix(epsilon, parameters.get("semantics")));
    }

    /** What each two may cost. */
    static double[][] matrix(List<Double> epsilon, Object semantics) {
        double[][] matrix = new double[epsilon.size()][epsilon.size()];
        for (int g = 0; g < matrix.length; g++) {
            for (int h = 0; h < matrix.length; h++) {
                double a = epsilon.get(g), b = epsilon.get(h);
                matrix[g][h] = semantics.equals("max") ? Math.max(a, b) : semantics.equals("min") ? Math.min(a, b)
                    : Device.<List<Double>>list(semantics).get(g).get(h);
            }
        }
        return matrix;
    }

    static Verdict tableLoss(Map<String, Object> law, Map<String, Object> parameters) {
        List<List<Long>> weights = list(law.get("weights"));
        int columns = list(law.get("values")).size();
        require(weights.stream().allMatch(row -> row.size() == columns), "shape: a row of weights");
        if (law.containsKey("places")) {
            List<Long> places = list(law.get("places")), jumps = list(law.get("jumps"));
            require(places.get(0) == 0 && places.get(places.size() - 1) == W, "shape: places");
            for (int i = 1; i < places.size(); i++) require(places.get(i - 1) < places.get(i), "shape: places");
            require(places.subList(1, places.size() - 1).containsAll(jumps), "shape: jumps");
            require(weights.size() == places.size() + jumps.size(), "shape: rows");
        } else require(Long.bitCount(weights.size() - 1) == 1, "shape: rows");
        long total = weights.get(0).stream().mapToLong(n -> n).sum();
        require(Long.bitCount(total) == 1 && total <= W, "a total that is no power of two");
        for (List<Long> row : weights) {
            require(row.stream().allMatch(n -> n >= 0 && n <= W), "a weight out of range");
            require(row.stream().mapToLong(n -> n).sum() == total, "rows of different totals");
        }
        List<List<BigInteger>> rows = new ArrayList<>();
        List<List<Integer>> ranges = new ArrayList<>();
        BigInteger whole = BigInteger.valueOf(W);
        boolean orNone = law.containsKey("none");
        BigInteger hush = orNone ? big(law, "hush") : BigInteger.ZERO;
        for (List<Long> row : weights) {
            List<BigInteger> one = new ArrayList<>();
            BigInteger scale = whole.subtract(hush).multiply(BigInteger.valueOf(W / total));
            for (long weight : row) one.add(scale.multiply(BigInteger.valueOf(weight)));
            if (orNone) one.add(hush.multiply(whole));
            rows.add(one);
        }
        double[][] budgets = budgets(law, parameters, weights.size(), ranges);
        if (orNone) {
            List<Long> none = list(law.get("none"));
            require(none.stream().mapToLong(n -> n).sum() == W, "no answer does not add up");
            rows.add(none.stream().map(n -> BigInteger.valueOf(n).multiply(whole)).toList());
            ranges.add(List.of(rows.size() - 1));
            budgets = bordered(budgets);
        }
        if (!orNone && !law.containsKey("places")) return Verdict.of(between(rows, ranges.get(0), ranges.get(0)), budgets[0][0]);
        return pairwise(rows, ranges, budgets);
    }

    record Pair(int g, int h, Ratio ratio, double most) {
        String words() {
            String place = g == h ? " inside range " + (g + 1) : " between ranges " + (g + 1) + " and " + (h + 1);
            return costs(ratio, place, most);
        }
    }

    /** Each two ranges against what they may cost; named are the two that are furthest apart, and the two
     * that are so in units of that. */
    static Verdict pairwise(List<List<BigInteger>> rows, List<List<Integer>> ranges, double[][] budgets) {
        List<Pair> pairs = new ArrayList<>();
        for (int g = 0; g < ranges.size(); g++) {
            for (int h = 0; h < ranges.size(); h++) {
                Ratio there = between(rows, ranges.get(g), ranges.get(h));
                Ratio back = between(rows, ranges.get(h), ranges.get(g));
                pairs.add(new Pair(g, h, back.larger(there) ? back : there, budgets[g][h]));
            }
        }
        boolean kept = pairs.stream().allMatch(pair -> pair.ratio().keeps(pair.most()));
        Pair largest = pairs.get(0), relative = pairs.get(0);
        double absolute = -1, share = -1;
        for (Pair pair : pairs) {
            double log = logAbove(pair.ratio());
            if (log > absolute) { absolute = log; largest = pair; }
            if (log / pair.most() > share) { share = log / pair.most(); relative = pair; }
        }
        String words = largest == relative ? largest.words() : largest.words() + ", and " + relative.words();
        return new Verdict(largest.ratio(), kept, words);
    }

    static Ratio between(List<List<BigInteger>> rows, List<Integer> some, List<Integer> others) {
        Ratio most = NOTHING;
        for (int column = 0; column < rows.get(0).size(); column++) {
            int place = column;
            BigInteger high = some.stream().map(row -> rows.get(row).get(place)).max(BigInteger::compareTo).get();
            BigInteger low = others.stream().map(row -> rows.get(row).get(place)).min(BigInteger::compareTo).get();
            if (high.compareTo(low) <= 0) continue;
            Ratio found = new Ratio(high, low);
            if (found.larger(most)) most = found;
        }
        return most;
    }

    /** What two ranges may cost, and the rows of each. */
    static double[][] budgets(
        Map<String, Object> law, Map<String, Object> parameters, int rows, List<List<Integer>> ranges) {
        if (!law.containsKey("places")) {
            ranges.add(IntStream.range(0, rows).boxed().toList());
            return new double[][] {{(Double) parameters.get("epsilon")}};
        }
        Map<String, Object> graded = new HashMap<>(parameters);
        if (parameters.containsKey("settings")) {
            for (List<Object> pair : Device.<List<Object>>list(parameters.get("settings"))) {
                graded.put((String) pair.get(0), pair.get(1));
            }
        }
        List<Double> epsilon = list(graded.get("epsilon")), edges = list(graded.get("edges"));
        List<Long> places = list(law.get("places")), jumps = list(law.get("jumps"));
        for (int g = 0; g < epsilon.size(); g++) {
            int start = places.indexOf(fixed(edges.get(g))), end = places.indexOf(fixed(edges.get(g + 1)));
            require(start >= 0 && end > start, "an edge is none of the places");
            Set<Integer> found = new TreeSet<>();
            for (int i = start; i < end; i++) {
                int low = lowRow(places, jumps, i);
                found.addAll(List.of(low, low + 1));
            }
            ranges.add(new ArrayList<>(found));
        }
        return matrix(epsilon, graded.getOrDefault("semantics", "max"));
    }

    /** With no answer as one more range. */
    static double[][] bordered(double[][] matrix) {
        int n = matrix.length, shy = 0;
        for (int g = 1; g < n; g++) {
            double less = matrix[g][g] - matrix[shy][shy];
            boolean smaller = Arrays.stream(matrix[g]).sum() < Arrays.stream(matrix[shy]).sum();
            if (less < 0 || (less == 0 && smaller)) shy = g;
        }
        double[][] found = new double[n + 1][n + 1];
        for (int g = 0; g < n; g++) {
            System.arraycopy(matrix[g], 0, found[g], 0, n);
            found[g][n] = found[n][g] = matrix[shy][g];
        }
        return found;
    }

    // --- section 2: answers ----------------------------------------------------------------------

    static final String NUMBER = "[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?";
    static final int[][] BLANKS = {{9, 13}, {0x20, 0x20}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    static final int[][] FOLDS = {{0x41, 0x5A, 1, 32}, {0xC0, 0xD6, 1, 32}, {0xD8, 0xDE, 1, 32},
        {0x100, 0x12E, 2, 1}, {0x132, 0x136, 2, 1}, {0x139, 0x147, 2, 1}, {0x14A, 0x176, 2, 1},
        {0x178, 0x178, 1, -121}, {0x179, 0x17D, 2, 1}, {0x386, 0x386, 1, 38}, {0x388, 0x38A, 1, 37},
        {0x38C, 0x38C, 1, 64}, {0x38E, 0x38F, 1, 63}, {0x391, 0x3A1, 1, 32}, {0x3A3, 0x3AB, 1, 32},
        {0x3C2, 0x3C2, 1, 1}, {0x400, 0x40F, 1, 80}, {0x410, 0x42F, 1, 32}};

    static String tidy(String text, boolean fold) {
        int[] points = Normalizer.normalize(text, Normalizer.Form.NFC).codePoints().toArray();
        int start = 0, end = points.length;
        while (start < end && blank(points[start])) start++;
        while (end > start && blank(points[end - 1])) end--;
        StringBuilder found = new StringBuilder();
        for (int i = start; i < end; i++) found.appendCodePoint(fold ? folded(points[i]) : points[i]);
        return found.toString();
    }

    static boolean blank(int point) { return Arrays.stream(BLANKS).anyMatch(b -> b[0] <= point && point <= b[1]); }

    static int folded(int point) {
        for (int[] f : FOLDS) {
            if (f[0] <= point && point <= f[1] && (point - f[0]) % f[2] == 0) return point + f[3];
        }
        return point;
    }

    static Double numberOf(String text) { return text.matches(NUMBER) ? Double.valueOf(text) : null; }

    static final int NONE = -1, UNKNOWN = -2;

    /** The place of a label, no answer, or an unknown one. */
    static int place(Map<String, Object> attribute, Object raw) {
        if (raw == null) return NONE;
        String text = text(raw);
        List<String> labels = list(attribute.getOrDefault("labels", List.of()));
        List<String> markers = list(attribute.getOrDefault("markers", List.of()));
        if (labels.contains(text)) return labels.indexOf(text);
        boolean fold = "ignore".equals(attribute.get("case"));
        String key = tidy(text, fold);
        if (key.isEmpty()) return NONE;
        List<String> keys = labels.stream().map(label -> tidy(label, fold)).toList();
        int found = one(keys, markers.stream().map(marker -> tidy(marker, fold)).toList(), key);
        Double value = numberOf(key);
        boolean codes = keys.stream().anyMatch(label -> label.matches("[+-]?0[0-9].*"));
        if (found != UNKNOWN || value == null || codes || Math.abs(value) >= 0x1p53) return found;
        List<Double> values = keys.stream().map(Device::numberOf).toList();
        return one(values, markers.stream().map(marker -> numberOf(tidy(marker, false))).toList(), value);
    }

    /** What is no text, as one. */
    static String text(Object raw) {
        if (raw instanceof String text) return text;
        if (raw instanceof Boolean fine) return fine ? "True" : "False";
        double number = ((Number) raw).doubleValue();
        if (Double.isInfinite(number)) return number < 0 ? "-inf" : "inf";
        boolean whole = number == Math.rint(number) && Math.abs(number) < 0x1p53;
        return whole ? String.valueOf((long) number) : Json.shortest(number);
    }

    static <T> int one(List<T> labels, List<T> markers, T key) {
        int first = labels.indexOf(key);
        if (markers.contains(key)) return first < 0 ? NONE : UNKNOWN;
        return first >= 0 && first == labels.lastIndexOf(key) ? first : UNKNOWN;
    }

    /** x as a Double, an item as a Long, no answer to a number as NaN. */
    static Object encoded(Map<String, Object> attribute, Object raw, LongSupplier spread) {
        String outside = text(attribute, "outside", "");
        if (attribute.containsKey("labels")) {
            List<String> labels = list(attribute.get("labels"));
            int found = place(attribute, raw);
            if (found >= 0) return (long) found;
            boolean byChance = outside.equals("spread") || outside.equals("refuse");
            if (found == UNKNOWN && byChance) return uniform(spread, labels.size());
            if (found == UNKNOWN && labels.contains(outside)) return (long) labels.indexOf(outside);
            require(Boolean.TRUE.equals(attribute.get("missing")), "an answer is missing");
            return (long) labels.size();
        }
        Double v = value(attribute, raw);
        boolean out = v != null && (v < end(attribute, "low") || v > end(attribute, "high"));
        if (out && outside.equals("no answer")) v = null;
        require(v != null || Boolean.TRUE.equals(attribute.get("missing")), "an answer is missing");
        return v == null ? (Object) Double.NaN : (Object) scaled(attribute, v);
    }

    static double end(Map<String, Object> attribute, String key) { return ((Number) attribute.get(key)).doubleValue(); }

    /** The number that a raw value is; nothing where it is none, or a marker. */
    static Double value(Map<String, Object> attribute, Object raw) {
        return marked(attribute, raw) ? null : numeric(raw);
    }

    static Double numeric(Object raw) {
        if (raw instanceof Boolean fine) return fine ? 1.0 : 0.0;
        return raw instanceof Number n ? (Double) n.doubleValue() : raw instanceof String s ? numberOf(tidy(s, false)) : null;
    }

    static boolean marked(Map<String, Object> attribute, Object raw) {
        Double v = numeric(raw);
        List<String> markers = list(attribute.getOrDefault("markers", List.of()));
        return v != null && markers.stream().map(m -> numberOf(tidy(m, false))).anyMatch(v::equals);
    }

    static double scaled(Map<String, Object> attribute, double v) {
        double low = end(attribute, "low"), high = end(attribute, "high");
        double inside = Math.min(Math.max(v, low), high);
        return Math.min(Math.max(2 * ((inside - low) / (high - low)) - 1, -1.0), 1.0);
    }

    // --- section 3: words ------------------------------------------------------------------------

    static byte[] hmac(byte[] key, byte[] text) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(text);
        } catch (java.security.GeneralSecurityException problem) {
            throw new IllegalStateException(problem);
        }
    }

    static byte[] key(byte[] secret, Object... parts) {
        ByteBuffer context = ByteBuffer.allocate(1 << 20);
        for (Object part : parts) {
            byte[] octets = part instanceof byte[] b ? b : ((String) part).getBytes(StandardCharsets.UTF_8);
            context.putInt(octets.length).put(octets);
        }
        return hmac(secret, Arrays.copyOf(context.array(), context.position()));
    }

    static LongSupplier words(byte[] key) {
        return new LongSupplier() {
            long number = 0;
            ByteBuffer block = ByteBuffer.allocate(0);

            public long getAsLong() {
                if (!block.hasRemaining()) {
                    byte[] counter = ByteBuffer.allocate(8).putLong(number++).array();
                    block = ByteBuffer.wrap(hmac(key, counter)).order(ByteOrder.LITTLE_ENDIAN);
                }
                return block.getLong();
            }
        };
    }

    static byte[] written(List<Object> values) {
        ByteBuffer found = ByteBuffer.allocate(8 * values.size()).order(ByteOrder.LITTLE_ENDIAN);
        for (Object value : values) {
            if (value instanceof Long item) found.putLong(item);
            else found.putDouble(Double.isNaN((Double) value) ? 2.0 : (Double) value + 0.0);
        }
        return found.array();
    }

    // --- section 4.1: words and numbers ----------------------------------------------------------

    static long top(long word, int bits) { return bits == 0 ? 0 : word >>> (64 - bits); }

    static long w(long word) { return word >>> 12; }

    static int log2(long n) { return 63 - Long.numberOfLeadingZeros(n); }

    static long uniform(LongSupplier next, long m) {
        long u;
        do u = w(next.getAsLong()); while (u >= W - W % m);
        return u % m;
    }

    static long[] uniforms(LongSupplier next, int n, long m) {
        long[] found = LongStream.generate(() -> w(next.getAsLong())).limit(n).toArray();
        while (Arrays.stream(found).anyMatch(u -> u >= W - W % m)) {
            for (int i = 0; i < n; i++) if (found[i] >= W - W % m) found[i] = w(next.getAsLong());
        }
        return Arrays.stream(found).map(u -> u % m).toArray();
    }

    static long other(long item, long k, long lie, long word) {
        long u = w(word) - (W - (k - 1) * lie);
        return u < 0 ? item : u / lie + (u / lie >= item ? 1 : 0);
    }

    static int parity(long n) { return Long.bitCount(n) & 1; }

    static int lies(Map<String, Object> law, LongSupplier word) {
        return w(word.getAsLong()) >= whole(law, "truth") ? 1 : 0;
    }

    static long fixed(double x) { return (long) (((x + 3.0) - 2.0) * 0x1p51); }

    static byte[] little(long number, int bytes) {
        byte[] found = new byte[bytes];
        for (int i = 0; i < bytes; i++) found[i] = (byte) (number >>> (8 * i));
        return found;
    }

    static int symbolBytes(long symbols) { return Math.max(1, (64 - Long.numberOfLeadingZeros(symbols - 1) + 7) / 8); }

    static byte[] symbol(long found, long symbols) { return little(found, symbolBytes(symbols)); }

    static byte[] bytes(LongSupplier word, int n) {
        ByteBuffer found = ByteBuffer.allocate((n + 7) / 8 * 8).order(ByteOrder.LITTLE_ENDIAN);
        while (found.hasRemaining()) found.putLong(word.getAsLong());
        return Arrays.copyOf(found.array(), n);
    }

    static byte[] joined(List<byte[]> parts) {
        ByteBuffer found = ByteBuffer.allocate(parts.stream().mapToInt(part -> part.length).sum());
        parts.forEach(found::put);
        return found.array();
    }

    // --- section 4.3: the laws -------------------------------------------------------------------

    /** The bytes that a law makes of one answer, or of all. */
    static byte[] drawn(Map<String, Object> cell, List<Object> values, LongSupplier word, LongSupplier coin) {
        Map<String, Object> law = map(cell.get("law")), parameters = map(cell.get("parameters"));
        long item = values.get(0) instanceof Long n ? n : -1, k = parameters.get("k") instanceof Long n ? n : 0;
        switch ((String) cell.get("mechanism")) {
            case "memoised": case "memoised-bit": {
                boolean bit = item < 0;
                long answer = bit ? above((Double) values.get(0), word.getAsLong()) : item, many = bit ? 2 : k;
                long kept = other(answer, many, whole(map(law.get("permanent")), "lie"), word.getAsLong());
                return symbol(other(kept, many, whole(law, "swap"), word.getAsLong()), many);
            }
            case "or-none": return orNone(law, (Double) values.get(0), word);
            case "graded-items": {
                List<List<Long>> weights = list(law.get("weights"));
                return symbol(passed(weights.get((int) item), w(word.getAsLong())), columns(law));
            }
            case "grr": return symbol(other(item, k, whole(law, "lie"), word.getAsLong()), k);
            case "sue": case "oue": return unary(law, item, (int) k, word);
            case "subset": return subset(law, (int) item, (int) k, word);
            case "olh": {
                long prime = whole(law, "prime"), cells = whole(law, "cells");
                long a = uniform(coin, prime), b = uniform(coin, prime);
                long own = (a * item + b) % prime * cells / prime;
                int width = prime < 1 << 16 ? 2 : 4;
                byte[] answer = symbol(other(own, cells, whole(law, "lie"), word.getAsLong()), cells);
                return joined(List.of(little(a, width), little(b, width), answer));
            }
            case "hadamard": {
                long rows = whole(law, "rows"), row = top(coin.getAsLong(), log2(rows));
                return symbol(2 * row + (parity(row & item) ^ lies(law, word)), 2 * rows);
            }
            case "hadamard-response": {
                long symbols = whole(law, "symbols"), y = top(word.getAsLong(), log2(symbols)), c = item + 1;
                if (parity(y & c) != lies(law, word)) y ^= Long.lowestOneBit(c);
                return symbol(y, symbols);
            }
            case "bassily-smith": {
                long rows = whole(law, "rows"), row = uniform(coin, rows);
                int entry = mix(mix(mix((int) whole(law, "seed")) ^ (int) row) + (int) item) & 1;
                return symbol(2 * row + (entry ^ lies(law, word)), 2 * rows);
            }
            case "projective": return projective(law, item, word);
            case "block": return block(law, values, word, coin);
            case "duchi-multi": case "duchi-multi-published": return corners(law, values, word);
            case "harmony": return harmony(law, values, word, coin);
            case "sampled": return sampled(law, values, word, coin);
            case "hybrid-composition": return parts(law, values, word, coin);
            default: {
                long first = word.getAsLong(), second = word.getAsLong();
                return symbol(tableSymbol(law, (Double) values.get(0), first, second), columns(law));
            }
        }
    }

    static int columns(Map<String, Object> law) { return Device.<List<Long>>list(law.get("weights")).get(0).size(); }

    static long tableSymbol(Map<String, Object> law, double x, long first, long second) {
        List<List<Long>> weights = list(law.get("weights"));
        int row;
        if (law.containsKey("places")) {
            List<Long> places = list(law.get("places"));
            int i = 0;
            while (i + 1 < places.size() - 1 && places.get(i + 1) <= fixed(x)) i++;
            double f = (double) (fixed(x) - places.get(i)) / (double) (places.get(i + 1) - places.get(i));
            int up = w(first) + (long) Math.floor(f * 0x1p52) >= W ? 1 : 0;
            row = lowRow(places, list(law.get("jumps")), i) + up;
        } else {
            int c = 52 - log2(weights.size() - 1);
            row = (int) ((fixed(x) + top(first, c)) >> c);
        }
        long total = weights.get(row).stream().mapToLong(n -> n).sum();
        return passed(weights.get(row), top(second, log2(total)));
    }

    static int lowRow(List<Long> places, List<Long> jumps, int i) {
        return i + (int) jumps.stream().filter(jump -> jump <= places.get(i)).count();
    }

    static long passed(List<Long> weights, long u) {
        long sum = 0, found = 0;
        for (long weight : weights) if ((sum += weight) <= u) found++;
        return found;
    }

    static byte[] orNone(Map<String, Object> law, double x, LongSupplier word) {
        long first = word.getAsLong(), second = word.getAsLong(), third = word.getAsLong();
        int none = columns(law);
        long found = Double.isNaN(x) ? passed(list(law.get("none")), w(second))
            : w(third) < whole(law, "hush") ? none : tableSymbol(law, x, first, second);
        return symbol(found, none + 1);
    }

    static byte[] unary(Map<String, Object> law, long item, int k, LongSupplier word) {
        BitSet bits = new BitSet();
        long both = 0;
        for (int j = 0; j < k; j++) {
            both = j % 2 == 0 ? word.getAsLong() : both >>> 32;
            if ((both & 0xFFFFFFFFL) < whole(law, j == item ? "yes" : "no")) bits.set(j);
        }
        return Arrays.copyOf(bits.toByteArray(), (k + 7) / 8);
    }

    static byte[] subset(Map<String, Object> law, int item, int k, LongSupplier word) {
        int size = (int) whole(law, "size"), n = (k + 7) / 8;
        boolean holds = w(word.getAsLong()) < whole(law, "holds");
        BitSet set;
        do {
            set = new BitSet();
            for (int j = 0; j < whole(law, "digits"); j++) {
                BitSet fair = BitSet.valueOf(bytes(word, n));
                if ((whole(law, "level") >> j & 1) == 1) set.or(fair);
                else set.and(fair);
            }
            set.clear(k, Math.max(k, set.length()));
            set.set(item);
        } while (set.cardinality() > size + 1);
        int missing = size + 1 - set.cardinality();
        while (missing > 0) {
            for (long i : uniforms(word, missing, k)) {
                if (!set.get((int) i)) missing--;
                set.set((int) i);
            }
        }
        set.clear(item);
        int other = set.stream().skip(uniform(word, size)).findFirst().getAsInt();
        if (holds) {
            set.clear(other);
            set.set(item);
        }
        return Arrays.copyOf(set.toByteArray(), n);
    }

    static int mix(int n) {
        n += 0x9E3779B9;
        n = (n ^ n >>> 16) * 0x7FEB352D;
        n = (n ^ n >>> 15) * 0x846CA68B;
        return n ^ n >>> 16;
    }

    static long power(long r, int t) { return t == 0 ? 1 : r * power(r, t - 1); }

    static byte[] projective(Map<String, Object> law, long item, LongSupplier word) {
        long r = whole(law, "prime");
        int t = (int) whole(law, "dimension");
        long outside = w(word.getAsLong()) >= whole(law, "inside") ? 1 : 0, free = power(r, t - 1);
        long f = outside == 1 ? uniform(word, free) : 1 + uniform(word, free - 1);
        long[] p = point(item, r, t), v = new long[t];
        int lead = first(p);
        long sum = outside;
        for (int i = 0; i < t; i++) {
            if (i == lead) continue;
            v[i] = f % r;
            f /= r;
            sum -= v[i] * p[i];
        }
        v[lead] = Math.floorMod(sum, r);
        int j = first(v);
        long inverse = BigInteger.valueOf(v[j]).modInverse(BigInteger.valueOf(r)).longValue(), found = 0, tail = 0;
        for (int i = 0; i < j; i++) found += power(r, t - 1 - i);
        for (int i = j + 1; i < t; i++) tail = tail * r + v[i] * inverse % r;
        return symbol(found + tail, (power(r, t) - 1) / (r - 1));
    }

    static long[] point(long n, long r, int t) {
        int j = 0;
        while (n >= power(r, t - 1 - j)) n -= power(r, t - 1 - j++);
        long[] found = new long[t];
        found[j] = 1;
        for (int i = t - 1; i > j; i--, n /= r) found[i] = n % r;
        return found;
    }

    static int first(long[] v) {
        int j = 0;
        while (v[j] == 0) j++;
        return j;
    }

    static byte[] block(Map<String, Object> law, List<Object> x, LongSupplier word, LongSupplier coin) {
        int size = (int) whole(law, "size"), signs = 0;
        long q = whole(law, "thresholds"), likely = whole(law, "likely"), start = uniform(coin, x.size());
        int c = 52 - log2(q);
        long[] places = new long[size];
        for (int i = 0; i < size; i++) {
            double own = (Double) x.get((int) (start + i) % x.size());
            places[i] = (fixed(own) + top(word.getAsLong(), c)) >> c;
        }
        long[] thresholds = uniforms(coin, size, q);
        for (int i = 0; i < size; i++) if (places[i] > thresholds[i]) signs |= 1 << i;
        long u = w(word.getAsLong());
        long n = u < whole(law, "inside") ? uniform(word, likely) : likely + uniform(word, (1L << size) - likely);
        int flips = IntStream.range(0, 1 << size).boxed().sorted(Comparator.comparing(Integer::bitCount))
            .skip(n).findFirst().get();
        List<byte[]> parts = new ArrayList<>(List.of(little(start, 2)));
        for (long threshold : thresholds) parts.add(little(threshold, 1));
        parts.add(little(signs ^ flips, 2));
        return joined(parts);
    }

    static byte[] corners(Map<String, Object> law, List<Object> x, LongSupplier word) {
        int d = (int) whole(law, "bits");
        BitSet signs = new BitSet();
        for (int i = 0; i < d; i++) signs.set(i, fixed((Double) x.get(i)) + w(word.getAsLong()) >= W);
        boolean wanted = w(word.getAsLong()) < whole(law, "inside");
        while (true) {
            BitSet corner = BitSet.valueOf(bytes(word, (d + 63) / 64 * 8)).get(0, d);
            BitSet different = (BitSet) corner.clone();
            different.xor(signs);
            boolean most = 2 * (d - different.cardinality()) > d;
            if (most == wanted) return Arrays.copyOf(corner.toByteArray(), (d + 7) / 8);
        }
    }

    static int widest(Map<String, Object> law) {
        return Device.<Map<String, Object>>list(law.get("inner")).stream().mapToInt(Device::width).max().getAsInt();
    }

    static byte[] harmony(Map<String, Object> law, List<Object> values, LongSupplier word, LongSupplier coin) {
        List<Map<String, Object>> inner = list(law.get("inner"));
        int a = (int) uniform(coin, values.size());
        long u = w(coin.getAsLong()), row = 0, bit;
        Map<String, Object> own = map(inner.get(Device.<Long>list(law.get("attributes")).get(a).intValue()).get("law"));
        if (values.get(a) instanceof Long item) {
            row = u & (whole(own, "rows") - 1);
            bit = parity(row & item) ^ lies(own, word);
        } else bit = tableSymbol(own, (Double) values.get(a), word.getAsLong(), word.getAsLong());
        return joined(List.of(little(a, values.size() > 256 ? 2 : 1), little(2 * row + bit, widest(law))));
    }

    static byte[] sampled(Map<String, Object> law, List<Object> values, LongSupplier word, LongSupplier coin) {
        List<Map<String, Object>> inner = list(law.get("inner"));
        List<byte[]> parts = new ArrayList<>();
        for (int a : which(values.size(), (int) whole(law, "sample"), list(law.get("ends")), coin)) {
            Map<String, Object> own = inner.get(Device.<Long>list(law.get("attributes")).get(a).intValue());
            parts.add(little(a, values.size() > 256 ? 2 : 1));
            parts.add(Arrays.copyOf(drawn(own, List.of(values.get(a)), word, coin), widest(law)));
        }
        return joined(parts);
    }

    static byte[] parts(Map<String, Object> law, List<Object> values, LongSupplier word, LongSupplier coin) {
        List<Object> numbers = values.stream().filter(value -> value instanceof Double).toList();
        List<List<Object>> groups = new ArrayList<>();
        if (!numbers.isEmpty()) groups.add(numbers);
        values.stream().filter(value -> value instanceof Long).forEach(item -> groups.add(List.of(item)));
        List<byte[]> found = new ArrayList<>();
        for (Map<String, Object> part : Device.<Map<String, Object>>list(law.get("parts"))) {
            found.add(drawn(part, groups.get(found.size()), word, coin));
        }
        return joined(found);
    }

    /** How many bytes a law's reports have. */
    static int width(Map<String, Object> cell) {
        Map<String, Object> law = map(cell.get("law")), parameters = map(cell.get("parameters"));
        long k = parameters.get("k") instanceof Long n ? n : 0;
        int d = parameters.get("d") instanceof Long n ? (int) (long) n : 0;
        switch ((String) cell.get("mechanism")) {
            case "grr": case "memoised": return symbolBytes(k);
            case "graded-items": return symbolBytes(columns(law));
            case "memoised-bit": return 1;
            case "sue": case "oue": case "subset": return (int) (k + 7) / 8;
            case "olh": return (whole(law, "prime") < 1 << 16 ? 4 : 8) + symbolBytes(whole(law, "cells"));
            case "hadamard": case "bassily-smith": return symbolBytes(2 * whole(law, "rows"));
            case "hadamard-response": return symbolBytes(whole(law, "symbols"));
            case "projective": {
                long r = whole(law, "prime");
                return symbolBytes((power(r, (int) whole(law, "dimension")) - 1) / (r - 1));
            }
            case "block": return 4 + (int) whole(law, "size");
            case "duchi-multi": case "duchi-multi-published": return (d + 7) / 8;
            case "harmony": case "sampled": return (int) whole(law, "sample") * (widest(law) + (d > 256 ? 2 : 1));
            case "hybrid-composition":
                return Device.<Map<String, Object>>list(law.get("parts")).stream().mapToInt(Device::width).sum();
            case "or-none": return symbolBytes(columns(law) + 1);
            default: return symbolBytes(columns(law));
        }
    }

    // --- section 4.2: which attributes; then the whole report ------------------------------------

    static int[] which(int d, int sample, List<Long> ends, LongSupplier word) {
        if (ends != null && !ends.isEmpty()) {
            long u = w(word.getAsLong());
            return new int[] {(int) ends.stream().filter(end -> end <= u).count()};
        }
        if (sample == 1) return new int[] {(int) uniform(word, d)};
        long[] u = LongStream.generate(() -> w(word.getAsLong())).limit(d).toArray();
        return IntStream.range(0, d).boxed().sorted(Comparator.comparing(a -> u[a])).limit(sample)
            .sorted().mapToInt(a -> a).toArray();
    }

    /** Where words come from: a purpose and its parts. */
    interface Source { LongSupplier of(Object... parts); }

    List<List<Integer>> entries(Map<String, Object> answers, Map<String, Object> level, String round, Source words) {
        List<Object> values = encodedAll(answers, words);
        int[] asked = strategy.equals("sample")
            ? which(attributes.size(), sample(), list(collection.get("ends")), words.of("which", round))
            : IntStream.range(0, groups()).toArray();
        List<List<Integer>> found = new ArrayList<>();
        for (int group : asked) {
            Map<String, Object> about = attributes.get(group);
            String name = text(about, "checks", "").isEmpty() ? text(about, "name", "") : text(about, "checks", "");
            int cell = group * perGroup() + (levels == null ? 0 : levels.indexOf(level.get(name)));
            List<Object> own = together() ? values : List.of(values.get(group));
            List<Integer> entry = new ArrayList<>(List.of(cell));
            for (byte octet : answered(cell, own, round, words)) entry.add(octet & 255);
            found.add(entry);
        }
        return found;
    }

    /** The spell that a period is in; no text where there are none. */
    List<String> spell(String round) {
        if (!collection.containsKey("spell") || round.isEmpty()) return List.of();
        long place = period(round) - whole(collection, "first");
        require(place >= 0 && place < whole(collection, "rounds"), "not asked in this period");
        return List.of(String.valueOf(place / whole(collection, "spell")));
    }

    /** In a spell, the values are those that it began with. */
    byte[] answered(int number, List<Object> values, String round, Source words) {
        Map<String, Object> cell = cells.get(number);
        String name = String.valueOf(number);
        byte[] answer = written(values);
        if (!keeps(cell)) {
            return drawn(cell, values, words.of("answer", name, answer, round), words.of("coin", name, round));
        }
        Map<String, Object> law = map(cell.get("law"));
        boolean bit = cell.get("mechanism").equals("memoised-bit");
        long k = bit ? 2 : whole(map(cell.get("parameters")), "k"), lie = whole(map(law.get("permanent")), "lie");
        String purpose = spell(round).isEmpty() ? "permanent" : "spell";
        List<Object> context = new ArrayList<>(List.of(purpose, name, bit ? new byte[0] : answer));
        context.addAll(spell(round));
        LongSupplier memory = words.of(context.toArray());
        long item = bit ? above((Double) values.get(0), memory.getAsLong()) : (Long) values.get(0);
        long kept = other(item, k, lie, memory.getAsLong());
        byte[] said = bit || !spell(round).isEmpty() ? little(kept, 8) : answer;
        long word = words.of("answer", name, said, round).getAsLong();
        return symbol(other(kept, k, whole(law, "swap"), word), k);
    }

    /** Whether a number is above the threshold that a word makes. */
    static long above(double x, long word) {
        return (long) ((x + 3 - 2) * (W / 2)) + w(word) >= W ? 1 : 0;
    }

    /** A report as a row of columns. */
    byte[] row(List<List<Integer>> entries, String round) {
        List<byte[]> parts = new ArrayList<>();
        if (collection.containsKey("every")) parts.add(little(period(round), 4));
        for (int place = 0; place < entries.size(); place++) {
            List<Integer> entry = entries.get(place);
            int group = entry.get(0) / perGroup();
            IntStream may = strategy.equals("sample") ? IntStream.range(0, cells.size())
                : IntStream.range(group * perGroup(), (group + 1) * perGroup());
            byte[] padded = new byte[may.map(cell -> width(cells.get(cell))).max().getAsInt()];
            for (int i = 1; i < entry.size(); i++) padded[i - 1] = (byte) (int) entry.get(i);
            parts.add(little(entry.get(0), cells.size() > 256 ? 2 : 1));
            parts.add(padded);
        }
        return joined(parts);
    }

    Source keyed(byte[] secret, String origin) {
        return parts -> {
            List<Object> whole = new ArrayList<>(List.of(origin, digest));
            whole.addAll(List.of(parts));
            return words(key(secret, whole.toArray()));
        };
    }

    String id(byte[] secret, String origin, String round) {
        return hex(key(secret, origin, digest, "id", round)).substring(0, 32);
    }

    /** The number of a period, by its name. */
    long period(String name) {
        return switch ((String) collection.get("every")) {
            case "day" -> java.time.LocalDate.parse(name).toEpochDay();
            case "month" -> java.time.YearMonth.parse(name).getLong(java.time.temporal.ChronoField.PROLEPTIC_MONTH)
                - 1970 * 12;
            default -> {
                var monday = java.time.LocalDate.parse(name + "-1", java.time.format.DateTimeFormatter.ISO_WEEK_DATE);
                yield Math.floorDiv(monday.toEpochDay() + 3, 7);
            }
        };
    }

    /** The name of the period that a day lies in; no name where there are none. */
    String today(java.time.LocalDate day) {
        String every = text(collection, "every", "");
        if (every.equals("week")) return day.format(java.time.format.DateTimeFormatter.ISO_WEEK_DATE).substring(0, 8);
        return every.equals("") ? "" : day.toString().substring(0, every.equals("day") ? 10 : 7);
    }

    String report(String id, List<List<Integer>> entries, String round) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("wire", 1L);
        found.put("digest", digest);
        found.put("id", id);
        found.put("entries", entries);
        if (collection.containsKey("every")) found.put("period", period(round));
        return Json.write(found);
    }

    static String hex(byte[] octets) { return HexFormat.of().formatHex(octets); }

    // --- section 5: send -------------------------------------------------------------------------

    static void send(String address, String secret, String answers, String token) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest get = HttpRequest.newBuilder(URI.create(address)).header("accept-encoding", "gzip").build();
        HttpResponse<byte[]> document = client.send(get, HttpResponse.BodyHandlers.ofByteArray());
        require(document.statusCode() == 200, "no document: " + document.statusCode());
        boolean packed = document.headers().firstValue("content-encoding").orElse("").equals("gzip");
        byte[] data = document.body();
        if (packed) data = new GZIPInputStream(new java.io.ByteArrayInputStream(data)).readNBytes((int) limit("document_bytes") + 1);
        Device device = new Device(new String(data, StandardCharsets.UTF_8), null);
        require(address.endsWith("/" + device.collection.get("campaign")), "a campaign of another name");
        URI place = URI.create(address);
        int port = place.getPort() >= 0 ? place.getPort() : place.getScheme().equals("https") ? 443 : 80;
        String origin = place.getScheme() + "://" + place.getHost().toLowerCase(Locale.ROOT) + ":" + port;
        byte[] own = HexFormat.of().parseHex(secret);
        String round = device.today(java.time.LocalDate.now(java.time.ZoneOffset.UTC));
        var entries = device.entries(map(Json.parse(answers)), null, round, device.keyed(own, origin));
        String body = device.report(device.id(own, origin, round), entries, round);
        HttpRequest.Builder post = HttpRequest.newBuilder(URI.create(address + "/reports"))
            .header("content-type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body));
        if (token != null) post.header("authorization", "Bearer " + token);
        HttpResponse<String> answer = client.send(post.build(), HttpResponse.BodyHandlers.ofString());
        System.out.println(body);
        System.out.println(answer.statusCode() + " " + answer.body());
    }

    // --- section 8: vectors ----------------------------------------------------------------------

    static void vectors(Path folder) throws Exception {
        List<String> stream = list(map(Json.parse(Files.readString(folder.resolve("words.json")))).get("words"));
        long[] script = stream.stream().mapToLong(Long::parseUnsignedLong).toArray();
        int reports = 0, documents = 0, refused = 0, values = checkValues(folder), losses = checkLosses(folder), charges = checkCharges(folder), accounts = checkAccounts(folder), hosts = checkHosts(folder);
        int people = checkLaws(folder, script);
        List<Path> files;
        try (Stream<Path> found = Files.list(folder.resolve("reports"))) {
            files = found.filter(path -> path.toString().endsWith(".json")).sorted().toList();
        }
        for (Path file : files) {
            reports += check(map(Json.parse(Files.readString(file))), script, file.getFileName().toString());
            documents++;
        }
        for (Object one : Device.<Object>list(Json.parse(Files.readString(folder.resolve("refused.json"))))) {
            String name = (String) map(one).get("name"), document = (String) map(one).get("document");
            String rule = (String) map(one).get("rule"), said = "nothing";
            try {
                new Device(document, accepted(document));
            } catch (IllegalArgumentException problem) {
                said = problem.getMessage();
            }
            String also = RULES.get((String) map(one).getOrDefault("also", rule));
            if (Pattern.compile(RULES.get(rule) + "|" + also).matcher(said).find()) refused++;
            else System.out.println(name + ": not refused by the rule " + rule + ": " + said);
        }
        System.out.println(documents + " documents, " + reports + " reports, " + refused + " refused");
        System.out.println(values + " raw values, " + losses + " losses, " + charges + " charges, " + accounts + " of accounts, " + hosts + " hosts, " + people + " people of single laws");
    }

    /** The reports of each law, from words on. */
    static int checkLaws(Path folder, long[] script) throws Exception {
        int count = 0;
        for (String name : map(protocol.get("laws")).keySet()) {
            if (name.equals("privunit")) continue; // for trainings
            List<Path> files;
            try (Stream<Path> found = Files.list(folder)) {
                files = found.filter(path -> path.getFileName().toString().startsWith(name)).sorted().toList();
            }
            for (Path file : files) {
                for (Map<String, Object> one : Device.<Map<String, Object>>list(Json.parse(Files.readString(file)))) {
                    if (!name.equals(one.get("mechanism"))) continue;
                    count += checkLaw(folder, one, script);
                }
            }
        }
        return count;
    }

    static int checkLaw(Path folder, Map<String, Object> one, long[] script) throws Exception {
        if (!one.containsKey("law")) {
            String fingerprint = ((String) one.get("fingerprint")).substring(0, 16);
            byte[] packed = Files.readAllBytes(folder.resolve("laws/" + fingerprint + ".json.gz"));
            byte[] law = new GZIPInputStream(new java.io.ByteArrayInputStream(packed)).readAllBytes();
            one.put("law", Json.parse(new String(law, StandardCharsets.UTF_8)));
        }
        List<Map<String, Object>> people = list(one.get("people"));
        for (Map<String, Object> person : people) {
            int[] next = {(int) whole(person, "word")};
            LongSupplier words = () -> script[next[0]++];
            Object input = person.get("input");
            List<Object> values = input instanceof List<?> several ? list(several)
                : input == null ? List.of(Double.NaN) : List.of(input);
            String found = hex(drawn(one, values, words, words));
            require(found.equals(person.get("report")), one.get("mechanism") + ": " + found);
        }
        return people.size();
    }

    /** What ledgers are charged, and what they keep; and levels by lot. */
    static int checkCharges(Path folder) throws Exception {
        Map<String, Object> file = map(Json.parse(Files.readString(folder.resolve("keyed/charges.json"))));
        int count = 0;
        for (String name : file.keySet()) {
            Map<String, Object> reports = map(Json.parse(Files.readString(folder.resolve("reports/" + name + ".json"))));
            Device device = new Device((String) reports.get("document"), null);
            List<Map<String, Object>> people = list(reports.get("people")), wanted = list(file.get(name));
            Map<Object, Set<String>> paid = new HashMap<>();
            for (int i = 0; i < people.size(); i++) {
                Set<String> known = paid.computeIfAbsent(people.get(i).get("secret"), secret -> new HashSet<>());
                Map<String, Object> found = device.charged(people.get(i), (String) reports.get("origin"), known);
                found.put("id", wanted.get(i).get("id"));
                require(found.equals(wanted.get(i)), name + ": charged " + Json.write(found));
                count++;
            }
        }
        for (Map<String, Object> one : Device.<Map<String, Object>>list(
                Json.parse(Files.readString(folder.resolve("keyed/levels.json"))))) {
            byte[] secret = HexFormat.of().parseHex((String) one.get("secret"));
            LongSupplier words = words(key(secret, one.get("origin"), one.get("digest"), "level"));
            require(one.get("level").equals(uniform(words, whole(one, "levels"))), "another level by lot");
        }
        return count;
    }

    /** Which charges an account allows: section 4.5. */
    static int checkAccounts(Path folder) throws Exception {
        int count = 0;
        for (Map<String, Object> one : Device.<Map<String, Object>>list(
                Json.parse(Files.readString(folder.resolve("keyed/accounts.json"))))) {
            Account account = new Account(map(one.get("limits")));
            for (Map<String, Object> charge : Device.<Map<String, Object>>list(one.get("charges"))) {
                String found = account.charge(charge);
                require(found.equals(charge.get("outcome")), one.get("name") + ": " + found);
                count++;
            }
        }
        return count;
    }

    /** What a person's device has spent, and what it may spend. Null stands for infinity. */
    static final class Account {
        record Cost(String origin, String campaign, String digest, BigDecimal amount) {}

        final Map<String, Object> limits;
        final List<Cost> spent = new ArrayList<>(), aside = new ArrayList<>();
        final Set<Object> paid = new HashSet<>();

        Account(Map<String, Object> limits) {
            this.limits = limits;
        }

        String charge(Map<String, Object> one) {
            String origin = (String) one.get("origin"), campaign = (String) one.get("campaign");
            String digest = (String) one.get("digest");
            Predicate<Cost> same = cost -> cost.origin.equals(origin) && cost.digest.equals(digest);
            if (spent.stream().filter(same).count() >= whole(one, "rounds")) return "refused: rounds";
            BigDecimal cost = amount(one.get("cost"));
            List<Object> fresh = new ArrayList<>();
            for (Map<String, Object> memo : Device.<Map<String, Object>>list(one.get("permanent"))) {
                if (paid.contains(memo.get("name"))) continue;
                fresh.add(memo.get("name"));
                cost = add(cost, amount(memo.get("cost")));
            }
            boolean first = one.get("aside") != null && aside.stream().noneMatch(same);
            BigDecimal later = first ? amount(one.get("aside")) : BigDecimal.ZERO;
            Predicate<Cost> mine = other -> other.origin.equals(origin) && other.campaign.equals(campaign);
            BigDecimal gone = total(spent, mine), after = larger(add(gone, cost), add(total(aside, mine), later));
            Predicate<Cost> here = other -> !mine.test(other) && host(other.origin).equals(host(origin));
            if (beyond(add(committed(mine.negate()), after), limits.get("lifetime"))) return "refused: lifetime";
            if (beyond(add(committed(here), after), limits.get("collector"))) return "refused: collector";
            if (beyond(add(gone, cost), one.get("limit"))) return "refused: campaign";
            paid.addAll(fresh);
            spent.add(new Cost(origin, campaign, digest, cost));
            if (first) aside.add(new Cost(origin, campaign, digest, later));
            if (cost == null) return "inf";
            return cost.signum() == 0 ? "0" : cost.stripTrailingZeros().toPlainString();
        }

        /** What was spent or is set aside, the larger, campaign by campaign. */
        BigDecimal committed(Predicate<Cost> which) {
            Set<List<String>> campaigns = new HashSet<>();
            for (List<Cost> costs : List.of(spent, aside))
                costs.stream().filter(which).forEach(one -> campaigns.add(List.of(one.origin, one.campaign)));
            BigDecimal sum = BigDecimal.ZERO;
            for (List<String> name : campaigns) {
                Predicate<Cost> own = one -> List.of(one.origin, one.campaign).equals(name);
                sum = add(sum, larger(total(spent, own), total(aside, own)));
            }
            return sum;
        }

        static BigDecimal total(List<Cost> costs, Predicate<Cost> which) {
            BigDecimal sum = BigDecimal.ZERO;
            for (Cost one : costs) if (which.test(one)) sum = add(sum, one.amount);
            return sum;
        }

        static BigDecimal add(BigDecimal one, BigDecimal other) {
            return one == null || other == null ? null : one.add(other);
        }

        static BigDecimal larger(BigDecimal one, BigDecimal other) {
            return one == null || other == null ? null : one.max(other);
        }

        static boolean beyond(BigDecimal cost, Object limit) {
            BigDecimal most = amount(limit);
            return most != null && (cost == null || cost.compareTo(most) > 0);
        }

        static BigDecimal amount(Object text) {
            return text.equals("inf") ? null : new BigDecimal((String) text);
        }

    }

    /** Addresses of one list are one collector, those of two lists are two. */
    static int checkHosts(Path folder) throws Exception {
        Map<String, Object> file = map(Json.parse(Files.readString(folder.resolve("hosts.json"))));
        Set<String> hosts = new HashSet<>();
        for (List<String> addresses : Device.<List<String>>list(file.get("collectors"))) {
            Set<String> found = new HashSet<>();
            for (String address : addresses) found.add(host(address));
            require(found.size() == 1 && hosts.addAll(found), addresses.get(0) + " is " + found);
        }
        return hosts.size();
    }

    /** Whose collector an address is: its host, an IP address by value; this machine is one. */
    static String host(String address) {
        String rest = address.replaceFirst("^https?://", "").replaceFirst("/.*", "");
        try {
            if (rest.startsWith("[")) {  // an IPv4 address as IPv6 has it comes back as IPv4
                InetAddress found = InetAddress.getByName(rest.substring(0, rest.indexOf(']') + 1));
                return found.isLoopbackAddress() ? "localhost" : found.getHostAddress();
            }
            String name = rest.replaceFirst(":\\d*$", "").toLowerCase(Locale.ROOT).replaceFirst("\\.$", "");
            if (name.equals("localhost")) return name;
            String[] parts = name.split("\\.");
            String last = parts[parts.length - 1];
            if (!last.matches("0x[0-9a-f]*|[0-9]+")) return name;
            long value = Long.decode(last.matches("0[0-9]+") ? last : last.equals("0x") ? "0" : last);
            for (int i = 0; i < parts.length - 1; i++) value |= Long.decode(parts[i]) << (24 - 8 * i);
            InetAddress found = InetAddress.getByAddress(ByteBuffer.allocate(4).putInt((int) value).array());
            return found.isLoopbackAddress() ? "localhost" : found.getHostAddress();
        } catch (java.net.UnknownHostException problem) {
            throw new IllegalArgumentException("no host");
        }
    }

    /** What one report is charged: section 4.4 and 4.5. */
    Map<String, Object> charged(Map<String, Object> person, String origin, Set<String> known) {
        byte[] secret = HexFormat.of().parseHex((String) person.get("secret"));
        String round = (String) person.get("round");
        Source words = keyed(secret, origin);
        Map<String, Object> answers = map(person.getOrDefault("begun", person.get("answers")));
        List<Object> values = encodedAll(answers, words);
        List<Object> entries = new ArrayList<>(), permanent = new ArrayList<>();
        for (List<Long> entry : Device.<List<Long>>list(person.get("entries"))) {
            int number = (int) (long) entry.get(0);
            if (!keeps(cells.get(number))) entries.add(budget(cells.get(number)));
            else permanent.add(kept(number, values.get(number / perGroup()), round, words, secret, origin));
        }
        boolean none = attributes.stream().allMatch(one -> Boolean.TRUE.equals(one.get("missing")));
        if (cells.stream().allMatch(Device::keeps) && none && !collection.containsKey("spell")) {
            for (int number = 0; number < cells.size(); number++) {
                long k = whole(map(cells.get(number).get("parameters")), "k");
                permanent.add(kept(number, k - 1, round, words, secret, origin));
            }
        }
        BigDecimal cost = entries.stream().map(one -> new BigDecimal(Json.shortest((Double) one)))
            .reduce(BigDecimal.ZERO, BigDecimal::add);
        for (Object one : permanent) {
            BigDecimal charge = new BigDecimal(Json.shortest((Double) map(one).get("charge")));
            if (known.add((String) map(one).get("name"))) cost = cost.add(charge);
        }
        BigDecimal epsilon = new BigDecimal(Json.shortest((Double) collection.get("epsilon")));
        if (permanent.isEmpty()) cost = cost.min(epsilon);
        Map<String, Object> found = new HashMap<>(Map.of("entries", entries, "permanent", permanent));
        found.put("cost", cost.signum() == 0 ? "0" : cost.stripTrailingZeros().toPlainString());
        return found;
    }

    /** A permanent answer as a ledger knows it. */
    Map<String, Object> kept(int number, Object value, String round, Source words, byte[] secret, String origin) {
        String name = String.valueOf(number);
        Map<String, Object> cell = cells.get(number), parameters = map(cell.get("parameters"));
        boolean bit = cell.get("mechanism").equals("memoised-bit");
        byte[] answer = bit ? new byte[0] : written(List.of(value));
        Map<String, Object> found = new HashMap<>(Map.of("charge", parameters.get("permanent")));
        if (spell(round).isEmpty()) {
            found.put("name", hex(key(secret, origin, digest, "paid", name, answer)));
            return found;
        }
        String spell = spell(round).get(0);
        LongSupplier memory = words.of("spell", name, answer, spell);
        long item = bit ? above((Double) value, memory.getAsLong()) : (Long) value, k = bit ? 2 : whole(parameters, "k");
        long lie = whole(map(map(cell.get("law")).get("permanent")), "lie");
        byte[] nonce = new byte[16], hidden = little(other(item, k, lie, memory.getAsLong()), 8);
        for (int i = 0; i < 16; i++) nonce[i] = (byte) i;  // anew each time, but for the vectors
        byte[] mask = key(secret, origin, digest, "mask", name, spell, nonce);
        for (int i = 0; i < 8; i++) hidden[i] ^= mask[i];
        found.put("kept", hex(joined(List.of(nonce, hidden))));
        found.put("name", hex(key(secret, origin, digest, "kept", name, spell)));
        return found;
    }

    /** The loss of each law, whether it keeps its promise, and what accept_loss says if it does not. */
    static int checkLosses(Path folder) throws Exception {
        List<Map<String, Object>> laws = list(Json.parse(Files.readString(folder.resolve("losses.json"))));
        for (Map<String, Object> one : laws) {
            Verdict found = verdict(one);
            List<String> ratio = list(one.get("ratio"));
            Ratio wanted = ratio == null ? new Ratio(BigInteger.ONE, BigInteger.ZERO)
                : new Ratio(new BigInteger(ratio.get(0)), new BigInteger(ratio.get(1)));
            boolean same = !wanted.larger(found.ratio()) && !found.ratio().larger(wanted);
            require(same, one.get("mechanism") + ": another ratio");
            require(one.get("kept").equals(found.kept()), one.get("mechanism") + ": kept " + found.kept());
            require(found.kept() || one.get("words").equals(found.words()), found.words());
        }
        return laws.size();
    }

    /** What raw values are, texts and others. */
    static int checkValues(Path folder) throws Exception {
        int count = 0;
        for (String name : List.of("vectors", "values")) {
            Path path = folder.resolve("answers").resolve(name + ".json");
            Map<String, Object> file = map(Json.parse(Files.readString(path))), tables = map(file.get("attributes"));
            for (List<Object> row : Device.<List<Object>>list(file.get("vectors"))) {
                Map<String, Object> table = new HashMap<>(map(tables.get(row.get(0))));
                Object found = read(table, row.get(1)), wanted = row.get(2);
                if (wanted instanceof Number n && found instanceof Number f) {
                    require(n.doubleValue() == f.doubleValue(), name + ": " + row + " is " + found);
                } else require(wanted.equals(found), name + ": " + row + " is " + found);
                count++;
            }
        }
        return count;
    }

    /** The place of a label, x, or why there is none. */
    static Object read(Map<String, Object> attribute, Object raw) {
        int found = place(attribute, raw);
        if (attribute.containsKey("labels")) {
            return found >= 0 ? (Object) found : found == NONE ? "no answer" : "no label";
        }
        Double value = value(attribute, raw);
        if (value == null) return found == NONE || marked(attribute, raw) ? "no answer" : "no number";
        return scaled(attribute, value);
    }

    /** What is said of each rule that a document breaks. */
    static final Map<String, String> RULES = Map.ofEntries(
        Map.entry("digest", "digest is not that"), Map.entry("format", "newer format"), Map.entry("name", "two names"),
        Map.entry("key", "unknown key"), Map.entry("form", "another form|0 has no sign"),
        Map.entry("loss", "costs"), Map.entry("cells", "cells|a cell of"),
        Map.entry("law", "total|what is left|inside another|shape: "), Map.entry("levels", "levels: "),
        Map.entry("words", "accept_loss"), Map.entry("text", "text is too long"),
        Map.entry("attribute", "no such kind|one name"), Map.entry("range", "has a range|below high"),
        Map.entry("labels", "labels are all different"), Map.entry("outside", "no such rule"),
        Map.entry("reading", "marker|case is|bins are|label of that name"), Map.entry("domain", "law for other"),
        Map.entry("asking", "asking: "), Map.entry("epsilon", "epsilon is out of range"),
        Map.entry("limit", "limit of nothing"), Map.entry("checks", "checks: "), Map.entry("table", "table: "), Map.entry("repeat", "nothing is permanent|no such period|spell|by lot"),
        Map.entry("mechanism", "unknown law"), Map.entry("terms", "terms: "));

    static String accepted(String document) {
        return (String) map(Json.parse((String) map(Json.parse(document)).get("collection"))).get("accept_loss");
    }

    static int check(Map<String, Object> file, long[] script, String name) throws Exception {
        String document = (String) file.get("document"), origin = (String) file.get("origin");
        Device device = new Device(document, accepted(document));
        List<byte[]> ids = new ArrayList<>(), rows = new ArrayList<>();
        for (Map<String, Object> person : Device.<Map<String, Object>>list(file.get("people"))) {
            Map<String, Object> answers = map(person.get("answers")), level = map(person.get("level"));
            int[] next = {(int) whole(person, "word")};
            var drawn = device.entries(answers, level, "", parts -> () -> script[next[0]++]);
            require(plain(drawn).equals(plain(person.get("drawn"))), name + ": drawn " + drawn);
            byte[] secret = HexFormat.of().parseHex((String) person.get("secret"));
            String round = (String) person.get("round"), id = device.id(secret, origin, round);
            Map<String, Object> begun = map(person.getOrDefault("begun", answers));
            var entries = device.entries(begun, level, round, device.keyed(secret, origin));
            require(device.report(id, entries, round).equals(person.get("report")), name + ": " + entries);
            require(hex(device.row(entries, round)).equals(person.get("row")), name + ": another row");
            ids.add(HexFormat.of().parseHex(id));
            rows.add(device.row(entries, round));
        }
        byte[] digest = HexFormat.of().parseHex(device.digest);
        byte[] head = joined(List.of("MURMRPTS".getBytes(), little(1, 2), digest, little(ids.size(), 4)));
        String columns = hex(joined(List.of(head, joined(ids), joined(rows))));
        require(columns.equals(file.get("columns")), name + ": other columns");
        return ids.size();
    }

    static String plain(Object entries) { return Json.write(entries); }

    public static void main(String[] words) throws Exception {
        Path folder = Path.of(words[0]);
        protocol = map(Json.parse(Files.readString(folder.resolve("protocol.json"))));
        if (words[1].equals("vectors")) vectors(folder);
        else send(words[2], words[3], words[4], words.length > 5 ? words[5] : null);
    }
}
