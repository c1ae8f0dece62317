import type { SettleResponse } from '../core/x402/types.ts'

/** What an answer's `PAYMENT-RESPONSE` says of its payment; nothing where there is none that can be read. */
export function receiptIn(headers: { get(name: string): string | null }): Partial<SettleResponse> {
  try {
    return Object(JSON.parse(atob(headers.get('payment-response') ?? '')))
  } catch {
    return {}
  }
}
