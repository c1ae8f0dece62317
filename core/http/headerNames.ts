/**
 * A header's name as the most lenient reader reads it. Servers that pass headers on as variables (CGI, WSGI, Rack, PHP) write `_`
 * for every character other than letters and digits (RFC 3875, section 4.1.18), so they treat `X_Real.IP` like `X-Real-IP`.
 */
export function alike(name: string): string {
  const lower = name.toLowerCase()
  for (let i = 0; i < lower.length; i++) {
    const code = lower.charCodeAt(i)
    const isUsual = (code >= 97 && code <= 122) || code === 45 || (code >= 48 && code <= 57)
    if (!isUsual) return lower.replace(/[^a-z0-9]/g, '-')
  }
  return lower
}

/**
 * Whether a name begins with a known name, if both are spelled as {@link alike} does. For names of the same length this means that
 * they are equal. It makes no copies.
 *
 * @param known in lower case
 */
export function beginsAlike(name: string, known: string): boolean {
  for (let i = 0; i < known.length; i++) {
    const expected = known.charCodeAt(i)
    const code = name.charCodeAt(i)
    if (code === expected) continue
    if (expected === 45 ? isAlphanumeric(code) : expected < 97 || (code | 32) !== expected) return false
  }
  return true
}

const isAlphanumeric = (code: number) =>
  ((code | 32) >= 97 && (code | 32) <= 122) || (code >= 48 && code <= 57)

/** Hop-by-hop headers (RFC 9110, section 7.6.1) and headers that frame the body. */
export const hopHeaders = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]

/** The gateway sets this header itself, so that buyer and seller find the call by the same id. */
export const ownIdHeaders = ['x-request-id']

/** Headers of payment protocols, which neither side may use through the gateway. */
export const paymentHeaders = [
  'settlement-overrides',
  'sign-in-with-x',
  'x-payment',
  'x-payment-response',
  'x402-version',
]

const claims = [
  // Headers for the gateway's own origin. A seller must not get its cookies, because all sellers share that origin.
  ...['cookie', 'expect', 'host', 'http2-settings'],
  // Headers with the caller's address, which only a proxy in front of the seller may state.
  ...[
    'client-ip',
    'remote-addr',
    'true-client-ip',
    'ali-cdn-real-ip',
    'cf-connecting-ip',
    'cf-connecting-ipv6',
  ],
  ...['cf-ipcountry', 'cf-pseudo-ipv4', 'cf-visitor', 'fastly-client-ip', 'fastly-ssl', 'fly-client-ip'],
  ...['http-client-ip', 'incap-client-ip', 'proxy-client-ip', 'wl-proxy-client-ip', 'x-appengine-user-ip'],
  ...[
    'x-azure-clientip',
    'x-azure-socketip',
    'x-client',
    'x-client-ip',
    'x-cluster-client-ip',
    'x-coming-from',
  ],
  ...['x-envoy-external-address', 'x-forward-for', 'x-nf-client-connection-ip', 'x-original-remote-addr'],
  ...['x-originating-ip', 'x-proxyuser-ip', 'x-real-ip', 'x-remote-addr', 'x-remote-ip', 'x-sucuri-clientip'],
  // Headers about the requested address. They could name another path or method than the priced one.
  ...['front-end-https', 'x-envoy-original-path', 'x-host', 'x-http-host-override', 'x-http-method'],
  ...[
    'x-http-method-override',
    'x-method-override',
    'x-original-host',
    'x-original-method',
    'x-original-uri',
  ],
  ...['x-original-url', 'x-override-url', 'x-rewrite-url', 'x-scheme', 'x-url-scheme'],
  // Headers with the caller's certificate, which only a proxy may state (RFC 9440).
  ...['client-cert', 'client-cert-chain', 'x-arr-clientcert', 'x-client-cert'],
  // The wallet of the caller, which only the gateway states.
  'x-signed-in-wallet',
  // CGI passes it on as HTTP_PROXY, which is the proxy for the seller's own calls ("httpoxy").
  'proxy',
]

/**
 * Makes the filter for one direction. It finds candidates by the name's length and first letter, and compares them without a copy
 * and without hashing the name (bench/free.ts).
 *
 * @param names in lower case
 * @param beginnings beginnings of further names, in lower case
 */
export function headerFilter(
  names: readonly string[],
  beginnings: readonly string[],
): (name: string) => boolean {
  const longest = Math.max(...[...names, ...beginnings].map((name) => name.length))
  /**
   * Candidates by the name's length, with 32 entries for the first letter. Names that are longer use the entries of `longest + 1`.
   */
  const suspects: (string[] | undefined)[] = new Array((longest + 2) * 32).fill(undefined)
  const suspect = (name: string, length: number) => {
    const index = length * 32 + (name.charCodeAt(0) & 31)
    suspects[index] = [...(suspects[index] ?? []), name]
  }
  for (const name of names) suspect(name, name.length)
  for (const name of beginnings) for (let i = name.length; i <= longest + 1; i++) suspect(name, i)
  return (name) => {
    const length = name.length > longest ? longest + 1 : name.length
    const known = suspects[length * 32 + (name.charCodeAt(0) & 31)]
    if (known === undefined) return false
    for (let i = 0; i < known.length; i++) if (beginsAlike(name, known[i]!)) return true
    return false
  }
}

/** Whether a header of the caller's request is not sent to the seller. @param name in any case */
export const isDroppedFromRequest = headerFilter(
  [...hopHeaders, ...paymentHeaders, ...claims, ...ownIdHeaders],
  [
    'payment-',
    'x-forwarded',
    'forwarded',
    'x-original-forwarded',
    'http-x-forwarded',
    'x-ssl-',
    'ssl-client-',
  ],
)

/** Header names in `Connection`, except the usual values. Null if there are none. */
export function nominatedBy(raw: readonly string[]): Set<string> | null {
  let names: Set<string> | null = null
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== 10 || raw[i]!.toLowerCase() !== 'connection') continue
    const value = raw[i + 1]!
    if (value === 'keep-alive' || value === 'close') continue
    names ??= new Set()
    for (const name of value.split(',')) names.add(name.trim().toLowerCase())
  }
  return names
}
