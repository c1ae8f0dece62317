import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import ipaddr from 'ipaddr.js'
import { TollgateError } from '../../core/errors/error.ts'
import type { ResolveHost } from './names/nameServers.ts'

type Cidr = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** RFC 6052, section 2.1, puts an IPv4 address into the last 32 bits. Networks with DNS64 reach all of IPv4 this way. */
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
/** The only global unicast block that IANA assigns from (RFC 4291, section 2.4). */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')

/**
 * Addresses inside public ranges where a cloud provider's own services respond. 168.63.129.16 is Azure's wire server, which gives
 * out credentials. The addresses of other providers are in ranges that are not public (169.254.169.254, 100.100.100.200,
 * 192.0.0.192, fd00:ec2::254).
 */
const providers: ReadonlySet<string> = new Set(['168.63.129.16'])

/** Whether the gateway may connect to this IP address (dotted or colon form, no brackets, no zone). */
export type AddressPolicy = (address: string) => boolean

/**
 * Creates the policy of the addresses that sellers may use. It allows global unicast addresses and addresses that the operator
 * lists. It refuses every special range of the IANA registries (RFC 6890), and services of cloud providers at public addresses. It
 * also refuses every IPv6 form that contains an IPv4 address (mapped, compatible, 6to4, Teredo, RFC 8215 local NAT64), because such
 * an address can be another form of a private address and no honest name resolves to it. The one exception is the well-known NAT64
 * prefix. The policy judges such an address by the IPv4 address inside, because a host behind DNS64 sees every IPv4 site there.
 *
 * @param allowPrivateCidrs ranges in CIDR form that are allowed although they are not public, such as `10.1.0.0/16`
 * @throws {Error} when an entry is not a CIDR range
 */
export function createAddressPolicy(allowPrivateCidrs: readonly string[] = []): AddressPolicy {
  const isListed = createListedPolicy(allowPrivateCidrs)
  return (address) => {
    const parsed = parseAddress(address)
    return parsed !== undefined && (isGlobalUnicast(parsed) || isListed(address))
  }
}

/**
 * Allows only addresses in the given ranges.
 * @throws {Error} when an entry is not a CIDR range
 */
export function createListedPolicy(cidrs: readonly string[]): AddressPolicy {
  const listed = cidrs.map(parseCidr)
  return (address) => {
    const parsed = parseAddress(address)
    return parsed !== undefined && listed.some((cidr) => contains(cidr, parsed))
  }
}

function parseCidr(text: string): Cidr {
  if (!ipaddr.isValidCIDR(text)) {
    throw new Error(
      `allowPrivateCidrs: expected a range such as 10.1.0.0/16 or fd00::/8, got "${text}". For a single address use /32 or /128`,
    )
  }
  return ipaddr.parseCIDR(text)
}

/** Reads only IPv4 in four decimal parts and IPv6 without a zone. `isValid` of ipaddr.js would also accept `0x7f.1` and zones. */
function parseAddress(address: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) return ipaddr.IPv4.parse(address)
  if (!address.includes('%') && ipaddr.IPv6.isValid(address)) return ipaddr.IPv6.parse(address)
  return undefined
}

function isGlobalUnicast(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address instanceof ipaddr.IPv4)
    return address.range() === 'unicast' && !providers.has(address.toString())
  if (address.match(nat64)) return isGlobalUnicast(new ipaddr.IPv4(address.toByteArray().slice(12)))
  return address.match(globalUnicast) && address.range() === 'unicast'
}

function contains(cidr: Cidr, address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  // match() throws if the families differ. An IPv4 range never contains an IPv6 address, mapped or not.
  return cidr[0].kind() === address.kind() && (address as ipaddr.IPv4).match(cidr as [ipaddr.IPv4, number])
}

/** Maximum number of characters in a URL. No honest URL is longer. RFC 9110, section 4.1 demands at least 8,000 octets. */
const MAX_URL_CHARS = 8192
/** Maximum number of characters in a host name, by RFC 1035, section 2.3.4, without the length octets. */
const MAX_HOST_CHARS = 253

/**
 * Refuses a URL to which no connection would be allowed, before it is stored or used. The check reads the host as the WHATWG parser
 * writes it. For example, `0x7f.1`, `2130706433`, `%3127.0.0.1`, full-width digits and `127.0.0.1.` all become `127.0.0.1`. The
 * check does not resolve a name, because the policy judges its addresses on each connection.
 *
 * @param schemes with the colon, such as `['http:', 'https:']`
 * @throws {TollgateError} `VALIDATION_ERROR`, with the rule in `details`
 */
export function checkUrl(text: string, policy: AddressPolicy, schemes: readonly string[]): URL {
  if (typeof text !== 'string' || text === '') refuse('required', 'The URL is missing.')
  if (text.length > MAX_URL_CHARS) {
    refuse('too_long', `The URL has ${text.length} characters, but at most ${MAX_URL_CHARS} are allowed.`)
  }
  // The parser drops tabs and line ends and turns backslashes into slashes. So a URL with such characters would lead elsewhere than
  // it seems to.
  if (hasForbiddenCharacter(text)) {
    refuse('characters', 'The URL contains a space, a control character or a backslash. Percent-encode it.')
  }
  // The parser also turns `http:///host` and `http:host` into `http://host`.
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#]/i.test(text) || !URL.canParse(text))
    refuse('format', `The URL cannot be read. Expected a form such as ${schemes[0]}//host/path.`)

  const url = new URL(text)
  if (!schemes.includes(url.protocol)) {
    refuse('scheme', `The URL has the scheme "${url.protocol}". Expected ${schemes.join(' or ')}.`)
  }
  if (url.username !== '' || url.password !== '') {
    refuse('credentials', 'The URL contains a user name or password. Remove both.')
  }
  if (url.port === '0') refuse('port', 'The URL has port 0. Expected 1 to 65535.')

  const host = hostOf(url)
  if (host === '' || host.length > MAX_HOST_CHARS || url.hostname.includes('..') || host.startsWith('.')) {
    refuse(
      'host',
      `The URL's host name is not valid. Expected at most ${MAX_HOST_CHARS} characters and no empty part.`,
    )
  }
  if (!isPossible(host, policy)) {
    refuse(
      'private_address',
      'The URL points to an address that is not public. Use a public address, or ask the operator to allow this one.',
    )
  }
  return url
}

/** The host to connect to, without brackets and without a trailing dot. */
export function hostOf(url: URL): string {
  const host = url.hostname
  if (host.startsWith('[')) return host.slice(1, -1)
  return host.endsWith('.') ? host.slice(0, -1) : host
}

/** These names mean the loopback address, regardless of the name servers' responses (RFC 6761, section 6.3). */
export function isLocalhost(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost')
}

/** The addresses of {@link isLocalhost} names. The policy must still allow them. */
export const loopback = ['127.0.0.1', '::1'] as const

function isPossible(host: string, policy: AddressPolicy): boolean {
  if (isIP(host) !== 0) return policy(host)
  return !isLocalhost(host) || loopback.some(policy)
}

function hasForbiddenCharacter(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 0x20 || code === 0x7f || code === 0x5c) return true
  }
  return false
}

/**
 * Always throws.
 * @throws {TollgateError} `VALIDATION_ERROR` for a URL
 */
function refuse(code: string, message: string): never {
  throw new TollgateError('VALIDATION_ERROR', message, { details: [{ path: 'url', code, message }] })
}

interface UrlJudgement {
  readonly isAllowed: AddressPolicy
  /** Whether the address is in a range that the operator listed. */
  readonly isListed: AddressPolicy
  readonly resolve: ResolveHost
  /** Longest wait for a name, in ms. */
  readonly timeoutMs: number
  /** Ports that are allowed on addresses that the operator did not list. */
  readonly publicPorts: readonly number[]
}

/**
 * Refuses a URL whose host currently has an address that the gateway would not connect to, or whose port is not allowed. A name
 * without an address is accepted as public, because the policy judges its addresses on each connection.
 *
 * @param url that `checkUrl` accepted
 * @throws {TollgateError} `VALIDATION_ERROR`, with the rule in `details`
 */
export async function judgeUrl(url: URL, judgement: UrlJudgement): Promise<void> {
  const { isAllowed, isListed, publicPorts } = judgement
  const addresses = await addressesOf(hostOf(url), judgement)
  if (!addresses.every(isAllowed)) {
    refuse(
      'private_address',
      "The URL's host has an address that is not public. Use a public address, or ask the operator to allow this one.",
    )
  }
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
  if (publicPorts.includes(port) || (addresses.length > 0 && addresses.every(isListed))) return
  refuse(
    'port',
    `The URL has port ${port}. Expected one of ${publicPorts.join(', ')}. To use another port, ask the operator to allow it.`,
  )
}

async function addressesOf(
  host: string,
  { isAllowed, resolve, timeoutMs }: UrlJudgement,
): Promise<readonly string[]> {
  if (isLocalhost(host)) return loopback.filter(isAllowed)
  if (isIP(host) !== 0) return [host]
  const enough = new AbortController()
  const found = resolve(host).catch(() => [])
  try {
    return await Promise.race([found, sleep(timeoutMs, [], { signal: enough.signal })])
  } finally {
    enough.abort()
  }
}
