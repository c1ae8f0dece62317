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

/** Hop-by-hop (RFC 9110, section 7.6.1) and framing. */
const hop = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]

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

const originWords = [
  ...[
    'accept-ch',
    'activate-storage-access',
    'alt-svc',
    'clear-site-data',
    'critical-ch',
    'expect-ct',
    'nel',
  ],
  ...['origin-agent-cluster', 'public-key-pins', 'public-key-pins-report-only', 'refresh', 'report-to'],
  ...[
    'reporting-endpoints',
    'sec-session-registration',
    'secure-session-registration',
    'service-worker-allowed',
  ],
  ...['set-cookie', 'set-cookie2', 'set-login', 'speculation-rules', 'strict-transport-security'],
  ...['use-as-dictionary', 'x-content-type-options', 'x-purchase-id', 'x-review-token'],
  // Words by which a server in front of the gateway is told to send one of its own files instead.
  ...['x-lighttpd-send-file', 'x-litespeed-location', 'x-reproxy-url', 'x-sendfile', 'x-sendfile2'],
]

/**
 * Makes the judge of one direction. Most names are settled by their length and first letter: nothing is copied, and no
 * hash of a string that is new with each call is made (bench/free.ts).
 *
 * @param names in lower case @param beginnings of further names
 */
function judge(names: readonly string[], beginnings: readonly string[]): (name: string) => boolean {
  const all = new Set(names)
  /** By length of the name, a bit for each first letter. */
  const suspects = new Uint32Array(64)
  const suspect = (name: string, length: number) => {
    suspects[length]! |= 1 << (name.charCodeAt(0) & 31)
  }
  for (const name of names) suspect(name, name.length)
  for (const name of beginnings) for (let i = name.length; i < suspects.length; i++) suspect(name, i)
  return (name) => {
    if (name.length < suspects.length && !(suspects[name.length]! & (1 << (name.charCodeAt(0) & 31))))
      return false
    const known = alike(name)
    if (all.has(known)) return true
    for (let i = 0; i < beginnings.length; i++) if (known.startsWith(beginnings[i]!)) return true
    return false
  }
}

/** @param name in any case */
export const isDroppedFromRequest = judge(
  [...hop, ...payment, ...claims],
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
  [...hop, ...payment, ...originWords],
  ['payment-', 'access-control-', 'content-security-policy', 'x-accel-'],
)
