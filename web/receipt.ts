import type { SettleResponse } from '../core/x402/types.ts'

/** The payment receipt in a response's `PAYMENT-RESPONSE`. Undefined if it is missing or cannot be read. */
export function receiptIn(headers: { get(name: string): string | null }): Partial<SettleResponse> {
  try {
    return Object(JSON.parse(atob(headers.get('payment-response') ?? '')))
  } catch {
    return {}
  }
}
