import { networkOfV1Name, v1NameOf } from '../domain/network.ts'
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

/**
 * An answer's headers for a client of the other version: the receipt under the name, and with the network's name, that this
 * one reads.
 *
 * @param headers flat, made by this gateway
 */
export function withReceiptIn(version: 1 | 2, headers: readonly string[]): readonly string[] {
  const name = version === 2 ? 'X-PAYMENT-RESPONSE' : 'PAYMENT-RESPONSE'
  const at = headers.indexOf(name)
  if (at === -1) return headers
  const receipt = JSON.parse(Buffer.from(headers[at + 1]!, 'base64').toString()) as SettleResponse
  const network = networkOfV1Name(receipt.network) ?? receipt.network
  return [
    ...headers.slice(0, at),
    ...receiptHeaders(version, { ...receipt, network }),
    ...headers.slice(at + 2),
  ]
}
