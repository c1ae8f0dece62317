import { isObject, own } from './strictJson.ts'
import type { AllowancePermit } from './types.ts'

/**
 * Name of the extension with which a buyer allows Permit2 to move its tokens by a signature (EIP-2612) instead of a transaction of its
 * own. The settler sends the signature together with the payment, and pays the gas.
 */
export const gasSponsoringName = 'eip2612GasSponsoring'

const fields = ['from', 'asset', 'spender', 'amount', 'nonce', 'deadline', 'signature', 'version'] as const

/**
 * The extension in a 402. Its schema says only which fields there are, because every unpaid call transfers it and every payment sends
 * it back.
 *
 * @see https://github.com/x402-foundation/x402/blob/main/specs/extensions/eip2612_gas_sponsoring.md
 */
export const gasSponsoringOffer = {
  info: {
    description: 'The facilitator accepts EIP-2612 gasless Permit to `Permit2` canonical contract.',
    version: '1',
  },
  schema: { type: 'object', required: fields },
} as const

/**
 * Reads the buyer's permit from the `extensions` of a payment.
 *
 * @returns undefined without a permit, such as of a client that sends the extension of the 402 back as it was
 */
export function readAllowancePermit(extensions: unknown): AllowancePermit | undefined {
  const extension = isObject(extensions) ? own(extensions, gasSponsoringName) : undefined
  const info = isObject(extension) ? own(extension, 'info') : undefined
  if (!isObject(info)) return undefined
  const values = fields.map((name) => [name, own(info, name)] as const)
  const isComplete = values.every(([, value]) => typeof value === 'string' && value !== '')
  return isComplete ? (Object.fromEntries(values) as unknown as AllowancePermit) : undefined
}
