import { v1NameOf } from '../domain/network.ts'
import { encodeHeader } from './header.ts'
import type { SettleResponse } from './types.ts'

/**
 * The receipt headers of an answer: `PAYMENT-RESPONSE` for v2, `X-PAYMENT-RESPONSE` for v1 with that version's network
 * name (x402 v2, HTTP transport, section "Settlement response").
 *
 * @returns flat `[name, value]`
 */
export function receiptHeaders(version: 1 | 2, receipt: SettleResponse): readonly string[] {
  if (version === 2) return ['PAYMENT-RESPONSE', encodeHeader(receipt)]
  return [
    'X-PAYMENT-RESPONSE',
    encodeHeader({ ...receipt, network: v1NameOf(receipt.network) ?? receipt.network }),
  ]
}
