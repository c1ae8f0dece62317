/**
 * The milliseconds of `Prefer: wait=N` (RFC 7240, section 4.3, N in seconds); undefined when it is not there or no number.
 */
export function preferWait(prefer: string | undefined): number | undefined {
  for (const part of prefer?.split(/[,;]/) ?? []) {
    const match = /^\s*wait\s*=\s*"?(\d{1,6})"?\s*$/i.exec(part)
    if (match !== null) return Number(match[1]) * 1_000
  }
  return undefined
}
