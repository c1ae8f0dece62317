import { LRUCache } from 'lru-cache'
import type { Rpc } from '../../../../core/rpc/rpc.ts'

/** A wallet's code does not go away in practice; an address without may get some at any time. */
const WITH_CODE_MS = 600_000
const WITHOUT_CODE_MS = 30_000

/** Whether an address is a contract, remembered for a while so that a payer is not looked up on every call. */
export interface AccountCode {
  /** @throws {RpcUnreachable} or {RpcRefused} when nothing is remembered and no node says. */
  isContract(address: string): Promise<boolean>
  /** What is remembered; undefined where the chain would have to be asked. */
  remembered(address: string): boolean | undefined
  /** What `eth_getCode` has answered to somebody else. */
  note(address: string, code: unknown): boolean
  /** Asks the chain again the next time: the address is about to get code. */
  forget(address: string): void
}

export function createAccountCode(rpc: Rpc): AccountCode {
  const known = new LRUCache<string, boolean>({ max: 10_000, ttl: WITHOUT_CODE_MS })
  const note = (address: string, code: unknown): boolean => {
    const isContract = typeof code === 'string' && code.length > 2
    known.set(address, isContract, { ttl: isContract ? WITH_CODE_MS : WITHOUT_CODE_MS })
    return isContract
  }
  return {
    async isContract(address) {
      return known.get(address) ?? note(address, await rpc.call('eth_getCode', address, 'latest'))
    },
    remembered: (address) => known.get(address),
    note,
    forget: (address) => void known.delete(address),
  }
}
