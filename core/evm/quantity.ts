import { RpcUnreachable } from '../rpc/rpcError.ts'

const quantityForm = /^0x[0-9a-fA-F]{1,64}$/

/**
 * A number as nodes write it (JSON-RPC "quantity"). Anything else is not an answer: taken for zero, a missing base fee
 * would make a transaction that never gets into a block.
 *
 * @throws {RpcUnreachable}
 */
export function quantity(value: unknown): bigint {
  if (typeof value === 'string' && quantityForm.test(value)) return BigInt(value)
  throw new RpcUnreachable('the node answered something else than a number where one was expected')
}
