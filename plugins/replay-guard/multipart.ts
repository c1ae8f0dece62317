/** A body of more parts is compared as it is: each part costs time, and forms have few. */
const MAX_PARTS = 1_000

const boundaryOf =
  /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n\\]{1,70})"|([^\s";,]{1,70}))\s*(?:;|$)/i

/**
 * The parts of a form, each with its head as it came: what stays the same where a client sends the same form again behind another boundary,
 * as each `FormData` has one.
 *
 * @returns null for everything else, and for a form that is not written strictly (RFC 2046, section 5.1.1): readers could differ in where
 *   its parts end
 */
export function formParts(contentType: string | undefined, body: Buffer): Buffer[] | null {
  const [, quoted, token] = boundaryOf.exec(contentType ?? '') ?? []
  const boundary = quoted ?? token
  if (boundary === undefined) return null
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  const first = delimiter.subarray(2)
  if (!body.subarray(0, first.length).equals(first)) return null
  const parts: Buffer[] = []
  for (let at = first.length; ; ) {
    const next = body.toString('latin1', at, at + 2)
    if (next === '--') {
      const rest = body.toString('latin1', at + 2)
      return rest === '' || rest === '\r\n' ? parts : null
    }
    const end = body.indexOf(delimiter, at + 2)
    if (next !== '\r\n' || end === -1 || parts.length === MAX_PARTS) return null
    parts.push(body.subarray(at + 2, end))
    at = end + delimiter.length
  }
}
