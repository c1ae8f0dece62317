import type { Finding } from '../check/explain.ts'
import type { Pointer } from '../read/pointer.ts'

/** A rule's error: the gateway does not start with it. */
export const mistake = (pointer: Pointer, message: string, hint?: string): Finding =>
  finding('error', pointer, message, hint)

/** A rule's warning: allowed, and probably not what was meant. */
export const warning = (pointer: Pointer, message: string, hint?: string): Finding =>
  finding('warning', pointer, message, hint)

const finding = (
  severity: Finding['severity'],
  pointer: Pointer,
  message: string,
  hint?: string,
): Finding => ({
  severity,
  pointer,
  part: 'key',
  message,
  ...(hint === undefined ? {} : { hint }),
})
