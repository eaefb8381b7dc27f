package dev.rackspan.kafka;

/**
 * The steps of a rack id, from the top: {@code /eu/eu-1a/r7} has the steps {@code eu}, {@code eu-1a}, {@code r7}.
 *
 * <p>The leading slash is optional, and a flat id such as {@code use1-az1} is one step. An id that is not a path (it
 * has an empty step, white space or a non-printable character) is a single step, which no path has. It is only near to
 * itself, as in Kafka's selector. A missing id has no steps and is near to nothing.
 *
 * <p>The rules are those of {@code core/rack_path.py}, except that characters newer than the Unicode version of this
 * Java count as non-printable. An id of a client can have 32,767 characters. Steps are compared in place, because their
 * strings would take many times the memory of the id.
 */
record RackPath(String id, boolean isPath) {
    private static final RackPath NONE = new RackPath("", true);

    static RackPath of(String rackId) {
        if (rackId == null || rackId.isEmpty()) {
            return NONE;
        }
        String body = rackId.charAt(0) == '/' ? rackId.substring(1) : rackId;
        return isPath(body) ? new RackPath(body, true) : new RackPath(rackId, false);
    }

    /** Returns the number of leading steps that two racks have in common. */
    int stepsInCommon(RackPath other) {
        if (!isPath || !other.isPath) {
            return equals(other) ? 1 : 0;
        }
        int length = Math.min(id.length(), other.id.length());
        int common = 0;
        for (int at = 0; at < length; at++) {
            if (id.charAt(at) != other.id.charAt(at)) {
                return common;
            }
            common += id.charAt(at) == '/' ? 1 : 0;
        }
        return length > 0 && endsStep(length) && other.endsStep(length) ? common + 1 : common;
    }

    private boolean endsStep(int at) {
        return at == id.length() || id.charAt(at) == '/';
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
