import { RpcUnreachable } from '../rpc/rpcError.ts'

/** One of the token balances that `getTransaction` tells of, before or after the transaction. */
export interface TokenBalance {
  readonly accountIndex: number
  readonly mint: string
  /** The wallet that the token account is of; absent in what very old nodes kept. */
  readonly owner?: string
  readonly uiTokenAmount: { readonly amount: string }
}

/**
 * Token accounts of a mint with what they hold, by address, in atomic units.
 *
 * @param keys the accounts of the transaction, in its own order
 * @throws {RpcUnreachable} when an amount is none
 */
export function tokenBalances(
  list: readonly TokenBalance[] | null | undefined,
  keys: readonly string[],
  mint: string,
): ReadonlyMap<string, bigint> {
  const held = (list ?? []).filter((one) => one.mint === mint)
  return new Map(held.map((one) => [keys[one.accountIndex] ?? '', amountOf(one)]))
}

function amountOf({ uiTokenAmount }: TokenBalance): bigint {
  if (/^\d{1,20}$/.test(uiTokenAmount.amount)) return BigInt(uiTokenAmount.amount)
  throw new RpcUnreachable('the node answered something else than an amount where one was expected')
}
