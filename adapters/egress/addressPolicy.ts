import ipaddr from 'ipaddr.js'

type Cidr = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** RFC 6052, section 2.1: an IPv4 address in the last 32 bits. DNS64 networks reach all of IPv4 this way. */
const nat64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
/** RFC 4291, section 2.4: the only global unicast block that IANA hands out. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3')

/**
 * Addresses inside public ranges that mean the provider's own services on a rented machine: 168.63.129.16 is Azure's wire
 * server, which hands out credentials. Those of the others (169.254.169.254, 100.100.100.200, 192.0.0.192,
 * fd00:ec2::254) are in ranges that are not public.
 */
const providers: ReadonlySet<string> = new Set(['168.63.129.16'])

/** True when a connection to this IP address (dotted or colon form, no brackets, no zone) may be opened. */
export type AddressPolicy = (address: string) => boolean

/**
 * Decides which addresses sellers may point at: global unicast ones, and those the operator lists.
 *
 * Everything special in the IANA registries (RFC 6890) is refused, and so is every IPv6 form that carries an IPv4
 * address (mapped, compatible, 6to4, Teredo, RFC 8215 local NAT64): no honest name resolves to one, and each is a second
 * spelling of a private address. The one exception is the well-known NAT64 prefix, judged by the address inside, because
 * a host behind DNS64 sees every IPv4 site there. Refused too: what a provider of machines answers at a public address.
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

/** True for addresses of the ranges only. @throws {Error} when an entry is not a CIDR range */
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
      `allowPrivateCidrs: expected a range such as 10.1.0.0/16 or fd00::/8, got "${text}"; a single address takes /32 or /128`,
    )
  }
  return ipaddr.parseCIDR(text)
}

/** Only the two canonical forms: `isValid` of ipaddr.js would also read `0x7f.1` and zones. */
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
  // match() throws across families: an IPv4 range never contains an IPv6 address, mapped or not.
  return cidr[0].kind() === address.kind() && (address as ipaddr.IPv4).match(cidr as [ipaddr.IPv4, number])
}
