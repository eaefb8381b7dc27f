package dev.rackspan.kafka;

import java.util.List;

/**
 * The steps of a rack id, from the top: {@code /eu/eu-1a/r7} has the steps {@code eu}, {@code eu-1a}, {@code r7}.
 *
 * <p>The leading slash is optional, and a flat id such as {@code use1-az1} is one step. An id that is not a path (it
 * has an empty step, white space or a non-printable character) is a single step, which no path has. It is only near to
 * itself, as in Kafka's selector. A missing id has no steps and is near to nothing.
 *
 * <p>The rules are those of {@code core/rack_path.py}, except that characters newer than the Unicode version of this
 * Java count as non-printable. Parsing takes time proportional to the length of the id, for any input of a client.
 */
record RackPath(List<String> steps) {
    private static final RackPath NONE = new RackPath(List.of());

    static RackPath of(String rackId) {
        if (rackId == null || rackId.isEmpty()) {
            return NONE;
        }
        String body = rackId.charAt(0) == '/' ? rackId.substring(1) : rackId;
        return new RackPath(isPath(body) ? List.of(body.split("/")) : List.of(rackId));
    }

    /** Returns the number of leading steps that two racks have in common. */
    int stepsInCommon(RackPath other) {
        int most = Math.min(steps.size(), other.steps.size());
        int common = 0;
        while (common < most && steps.get(common).equals(other.steps.get(common))) {
            common++;
        }
        return common;
    }

    private static boolean isPath(String body) {
        return !body.isEmpty()
            && !body.startsWith("/")
            && !body.endsWith("/")
            && !body.contains("//")
            && body.codePoints().allMatch(RackPath::isPrinted);
    }

    private static boolean isPrinted(int character) {
        return switch (Character.getType(character)) {
            case Character.CONTROL,
                Character.FORMAT,
                Character.LINE_SEPARATOR,
                Character.PARAGRAPH_SEPARATOR,
                Character.PRIVATE_USE,
                Character.SPACE_SEPARATOR,
                Character.SURROGATE,
                Character.UNASSIGNED -> false;
            default -> true;
        };
    }
}
