import { randomUUID } from 'node:crypto'

/**
 * A UUID of version 7 (RFC 9562, section 5.7): 48 bits of time in ms, then 74 random ones. Ids that grow with time stand
 * side by side in the store's indexes, where random ones would touch a page each (bench/durableSteps.ts).
 */
export function newPurchaseId(nowMs: number): string {
  const time = nowMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
