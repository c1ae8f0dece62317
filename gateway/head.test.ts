import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import t from 'tap'
import { isHost } from './head.ts'

const unreserved = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~'
/** RFC 3986, section 2.2, without the comma. */
const subDelims = "!$&'()*+;="
const hex = '0123456789abcdefABCDEF'

/** The rule applied letter by letter, slowly. */
function oracle(value: string): boolean {
  const inBrackets = value.startsWith('[')
  const hostEnd = inBrackets ? value.indexOf(']') + 1 : `${value}:`.indexOf(':')
  const host = value.slice(0, hostEnd)
  const rest = value.slice(hostEnd)
  if (value.length > 261 || host === '') return false
  if (rest !== '' && (rest[0] !== ':' || rest.length > 6)) return false
  if ([...rest.slice(1)].some((c) => !'0123456789'.includes(c)) || Number(rest.slice(1)) > 65_535)
    return false
  if (inBrackets) {
    const inside = host.slice(1, -1)
    // The library reads `01.2.3.4` as octal; in a Host, a number of an IPv4 address has no leading zero.
    const decimals = inside.includes('.') ? inside.slice(inside.lastIndexOf(':') + 1).split('.') : []
    return (
      !inside.includes('%') &&
      ipaddr.IPv6.isValid(inside) &&
      decimals.every((one) => one === String(Number(one)))
    )
  }
  for (let i = 0; i < host.length; i++) {
    if (host[i] === '%') {
      if (!hex.includes(host[i + 1] ?? ' ') || !hex.includes(host[i + 2] ?? ' ')) return false
      i += 2
    } else if (!(unreserved + subDelims).includes(host[i]!)) return false
  }
  return true
}

const chars = fc.constantFrom(
  ...unreserved,
  ...subDelims,
  ...':[]@,/?#<>%" \\|^`{}\t\0\x7fé',
  '%41',
  '%',
  '%4',
  '::',
)
const name = fc.array(chars, { maxLength: 12 }).map((all) => all.join(''))
const host = fc.oneof(
  fc.domain(),
  fc.ipV4(),
  fc.ipV6().map((ip) => `[${ip}]`),
  name,
  fc.string({ unit: 'binary' }),
)
const port = fc.oneof(
  fc.constant(''),
  fc.constantFrom(':', ':0', ':65535', ':65536', ':000080', ':-1', ':+1', ':8o', ': 80', ':80:80', ':１'),
  fc.nat(99_999).map((n) => `:${n}`),
)
const value = fc.tuple(host, port).map(([h, p]) => h + p)
const broken = fc.tuple(value, fc.nat(12), chars).map(([v, at, c]) => v.slice(0, at) + c + v.slice(at))

t.test('a Host is what the grammar says, and nothing else', async (t) => {
  const seen = { valid: 0, invalid: 0 }
  fc.assert(
    fc.property(fc.oneof(value, broken), (text) => {
      const is = oracle(text)
      seen[is ? 'valid' : 'invalid']++
      // Checked twice: the cached result is the same.
      return isHost(text) === is && isHost(text) === is
    }),
    { numRuns: 20_000 },
  )
  t.ok(seen.valid > 1_000 && seen.invalid > 1_000, `${seen.valid} valid, ${seen.invalid} not`)
})

t.test('however many names are asked for, the answers stay right', async (t) => {
  const names = Array.from({ length: 1_000 }, (_, n) => `host-${n}.example:${n}`)
  for (const one of [...names, ...names]) if (!isHost(one) || isHost(`${one},`)) t.fail(one)
})
