import { addressForm } from '../../../../core/evm/hex.ts'
import { permit2Address } from '../../../../core/evm/permit2.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { AllowancePermit } from '../../../../core/x402/types.ts'
import { refuse } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { type AuthorizationRead, MIN_LEAD_SECONDS, uintForm } from './authorization.ts'

/** 65 bytes, because the proxies of Permit2 accept no other signature of a permit. */
const signatureForm = /^0x[0-9a-fA-F]{130}$/

/**
 * Adds the payer's permit for Permit2 (EIP-2612) to a payment by Permit2. The permit has to allow exactly what the payment permits,
 * because the proxies accept nothing else. Whether its signature and nonce are valid is shown by the simulation.
 *
 * @see the x402 extension `eip2612GasSponsoring`
 */
export function withAllowancePermit(
  read: AuthorizationRead,
  given: AllowancePermit | undefined,
): AuthorizationRead {
  if (given === undefined || !read.ok || read.authorization.permit2 === undefined) return read
  const { from, value, permit2 } = read.authorization
  const { nonce, deadline, signature } = given
  const areAddresses = [given.from, given.asset, given.spender].every((text) => addressForm.test(text))
  const areNumbers = [given.amount, nonce, deadline].every(
    (text) => uintForm.test(text) && BigInt(text) < 2n ** 256n,
  )
  if (!areAddresses || !areNumbers || !signatureForm.test(signature))
    return refuse(
      reasons.eip2612Form,
      'Expected the permit in extensions.eip2612GasSponsoring.info to have addresses of 0x and 40 hex digits, numbers in decimal digits without leading zeros and of at most 256 bits, and a signature of 65 bytes.',
    )
  if (given.from.toLowerCase() !== from)
    return refuse(reasons.eip2612From, `Expected the permit of the payer ${from}.`)
  if (given.asset.toLowerCase() !== permit2.token)
    return refuse(reasons.eip2612Asset, `Expected a permit of the token ${permit2.token}.`)
  if (given.spender.toLowerCase() !== permit2Address)
    return refuse(reasons.eip2612Spender, `Expected a permit for the spender ${permit2Address}.`)
  if (given.amount !== value)
    return refuse(reasons.permit2Amount, `Expected the amount of the permit to be exactly ${value}.`)
  const allowance = { nonce, deadline, signature: signature.toLowerCase() }
  return { ok: true, authorization: { ...read.authorization, permit2: { ...permit2, allowance } } }
}

/** Refuses a permit that ends before the payment can be settled. */
export function judgeAllowancePermit(deadline: string, nowSeconds: number): Refusal | undefined {
  if (Number(deadline) >= nowSeconds + MIN_LEAD_SECONDS) return undefined
  return refuse(
    reasons.eip2612Deadline,
    `Expected the deadline of the permit to be at least ${MIN_LEAD_SECONDS} seconds in the future.`,
  )
}
