import { alike, nominatedBy } from '../http/headerNames.ts'
import { type Fact, shown, Unclear } from './ambiguity.ts'

/**
 * The values of the named headers, by name in lower case. A header is unclear if it occurs twice, if its name has another spelling,
 * or if the gateway would not forward it.
 *
 * @param raw header names and values in turn, as received
 * @param names the headers that decide a price. The key of a name is its {@link alike} spelling
 */
export function readHeaders(
  raw: readonly string[],
  names: ReadonlyMap<string, string>,
): ReadonlyMap<string, Fact> {
  const values = new Map<string, Fact>()
  const nominated = nominatedBy(raw)
  for (let i = 0; i < raw.length; i += 2) {
    const known = names.get(alike(raw[i]!))
    if (known === undefined) continue
    const expected = `Expected the header ${shown(known)}`
    if (raw[i]!.toLowerCase() !== known)
      values.set(known, new Unclear(`${expected} under this name, got another spelling.`))
    else if (values.has(known)) values.set(known, new Unclear(`${expected} once, got it twice.`))
    else if (nominated?.has(known) === true)
      values.set(known, new Unclear(`Expected a Connection header that does not list ${shown(known)}.`))
    else values.set(known, raw[i + 1]!.trim())
  }
  return values
}
