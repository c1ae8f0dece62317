import type { Access } from '../../core/domain/access.ts'
import { UsageError } from '../output/exitCodes.ts'

/** The options that set which wallets can call a link by a signature instead of a payment. */
export const paidForOption = [
  '--access-paid-for <time>',
  'let a wallet that has paid call the link again by its signature, such as 30m, 24h or 7d',
] as const
export const signedInOption = [
  '--access-signed-in',
  'let every wallet call the link by its signature; the link is free',
] as const

export interface AccessFlags {
  readonly accessPaidFor?: string
  readonly accessSignedIn?: true
  /** False with --no-access. */
  readonly access?: boolean
}

/** @returns null if the link is to have no access, undefined if no option is set. @throws {UsageError} if several are set */
export function accessOf({ accessPaidFor, accessSignedIn, access }: AccessFlags): Access | null | undefined {
  const given = [
    ...(accessPaidFor === undefined ? [] : [{ paidFor: accessPaidFor }]),
    ...(accessSignedIn ? (['signed-in'] as const) : []),
    ...(access === false ? [null] : []),
  ]
  if (given.length > 1)
    throw new UsageError(
      'Expected one of --access-paid-for, --access-signed-in and --no-access, got several.',
    )
  return given[0]
}
