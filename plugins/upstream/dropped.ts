/**
 * A header's name as the most careless reader takes it: servers that hand headers on as variables (CGI, WSGI, Rack, PHP)
 * write `_` for whatever is no letter and no digit (RFC 3875, section 4.1.18), so that `X_Real.IP` is `X-Real-IP` to them.
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
 * Whether a name, as {@link alike} has it, begins with a known one; where their lengths are the same, whether it is that.
 *
 * @param known lower case @returns without copying either
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

/** Hop-by-hop (RFC 9110, section 7.6.1) and framing. */
const hop = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]

/** The gateway says it itself, to both sides: one id by which both find the call. */
const ownId = ['x-request-id']

/** Neither side may speak the payment protocol through the gateway. */
const payment = ['settlement-overrides', 'x-payment', 'x-payment-response', 'x402-version']

const claims = [
  // The gateway's origin is shared by all sellers: a cookie set for it is not theirs to see.
  ...['cookie', 'expect', 'host', 'http2-settings'],
  // What only a proxy in front of the seller could say: the caller's address …
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
  // … what was asked for, where another path or method than the one that was priced would be …
  ...['front-end-https', 'x-envoy-original-path', 'x-host', 'x-http-host-override', 'x-http-method'],
  ...[
    'x-http-method-override',
    'x-method-override',
    'x-original-host',
    'x-original-method',
    'x-original-uri',
  ],
  ...['x-original-url', 'x-override-url', 'x-rewrite-url', 'x-scheme', 'x-url-scheme'],
  // … and which certificate was shown (RFC 9440).
  ...['client-cert', 'client-cert-chain', 'x-arr-clientcert', 'x-client-cert'],
  // As a variable, HTTP_PROXY: through which proxy the seller's own calls go ("httpoxy").
  'proxy',
]

/**
 * What a browser, a proxy or a wallet takes as said by the whole origin, which all sellers share: its cookies, caches, reports,
 * permissions, logins and other addresses.
 */
const originWords = [
  'accept-ch',
  'accept-ch-lifetime',
  'activate-storage-access',
  'alt-svc',
  'cache-group-invalidation',
  'cache-groups',
  'clear-site-data',
  'critical-ch',
  'expect-ct',
  'i2p-location',
  'nel',
  'observe-browsing-topics',
  'onion-location',
  'origin-agent-cluster',
  'origin-policy',
  'origin-trial',
  'p3p',
  'public-key-pins',
  'public-key-pins-report-only',
  'refresh',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'set-cookie',
  'set-cookie2',
  'set-login',
  'speculation-rules',
  'strict-transport-security',
  'supports-loading-mode',
  'use-as-dictionary',
  'x-allow-fledge',
  'x-content-type-options',
  'x-i2p-location',
  'x-permitted-cross-domain-policies',
  'x-purchase-id',
  'x-review-token',
  // Words by which a server in front of the gateway is told to send one of its own files instead.
  'x-lighttpd-send-file',
  'x-litespeed-location',
  'x-reproxy-url',
  'x-sendfile',
  'x-sendfile2',
  // Words by which a server in front of the gateway empties its cache, of other sellers' answers as well.
  'x-litespeed-purge',
  'x-litespeed-purge2',
]

/**
 * Makes the judge of one direction. What a name could be is found by its length and first letter, and then compared in
 * place: nothing is copied, and no hash of a string that is new with each call is made (bench/free.ts).
 *
 * @param names in lower case @param beginnings of further names
 */
function judge(names: readonly string[], beginnings: readonly string[]): (name: string) => boolean {
  const longest = Math.max(...[...names, ...beginnings].map((name) => name.length))
  /** By length of the name, 32 places each for the first letter; longer ones are judged as if they were `longest + 1`. */
  const suspects: (string[] | undefined)[] = new Array((longest + 2) * 32).fill(undefined)
  const suspect = (name: string, length: number) => {
    const place = length * 32 + (name.charCodeAt(0) & 31)
    suspects[place] = [...(suspects[place] ?? []), name]
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

/** @param name in any case */
export const isDroppedFromRequest = judge(
  [...hop, ...payment, ...claims, ...ownId],
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

/** @param name in any case */
export const isDroppedFromAnswer = judge(
  [...hop, ...payment, ...originWords, ...ownId],
  [
    'access-control-',
    'ad-auction-',
    'attribution-reporting-',
    'content-security-policy',
    'payment-',
    'private-aggregation-',
    'sec-session-',
    'secure-session-',
    'shared-storage-',
    'x-accel-',
  ],
)

/** Header names that `Connection` lists beside the usual two; null when there are none. */
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
