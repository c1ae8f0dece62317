/** Which headers never cross the gateway, by direction. Sorted by length first: most names are settled by one switch. */

/** Hop-by-hop (RFC 9110, section 7.6.1) and framing headers: both directions. */
function isHop(name: string): boolean {
  switch (name.length) {
    case 2:
      return name === 'te'
    case 7:
      return name === 'trailer' || name === 'upgrade'
    case 10:
      return name === 'connection' || name === 'keep-alive'
    case 16:
      return name === 'proxy-connection'
    case 17:
      return name === 'transfer-encoding'
    case 18:
      return name === 'proxy-authenticate'
    case 19:
      return name === 'proxy-authorization'
    default:
      return false
  }
}

/** Everything of the payment protocol: neither side may speak it through the gateway. */
function isPaymentHeader(name: string): boolean {
  switch (name.charCodeAt(0)) {
    case 112: // p
      return name.startsWith('payment-')
    case 115: // s
      return name === 'settlement-overrides'
    case 120: // x
      return name === 'x-payment' || name === 'x-payment-response' || name === 'x402-version'
    default:
      return false
  }
}

/** @param name lower case */
export function isDroppedFromRequest(name: string): boolean {
  if (isHop(name) || isPaymentHeader(name)) return true
  switch (name.length) {
    case 4:
      return name === 'host'
    case 6:
      // The gateway's origin is shared by all sellers: a cookie set for it is not theirs to see.
      return name === 'cookie' || name === 'expect'
    case 9:
      return name === 'forwarded' || name === 'x-real-ip'
    default:
      return name.startsWith('x-forwarded-') || name === 'http2-settings'
  }
}

/** @param name lower case */
export function isDroppedFromAnswer(name: string): boolean {
  if (isHop(name) || isPaymentHeader(name)) return true
  switch (name.charCodeAt(0)) {
    case 97: // a
      return name.startsWith('access-control-') || name === 'alt-svc'
    case 99: // c
      return name.startsWith('content-security-policy') || name === 'clear-site-data'
    case 115: // s
      return (
        name === 'set-cookie' ||
        name === 'set-cookie2' ||
        name === 'strict-transport-security' ||
        name === 'service-worker-allowed'
      )
    case 120: // x
      return name === 'x-purchase-id' || name === 'x-review-token' || name === 'x-content-type-options'
    case 114: // r
      return name === 'refresh' || name === 'report-to' || name === 'reporting-endpoints'
    case 110: // n
      return name === 'nel'
    case 111: // o
      return name === 'origin-agent-cluster'
    default:
      return false
  }
}
