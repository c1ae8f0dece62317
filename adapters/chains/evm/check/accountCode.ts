import { LRUCache } from 'lru-cache'
import type { Rpc } from '../../../../core/rpc/rpc.ts'

/** How long an address is cached as a contract, in ms. In practice its code does not disappear. */
const WITH_CODE_MS = 600_000
/** How long an address is cached as having no code, in ms. It may get code at any time. */
const WITHOUT_CODE_MS = 30_000

/** Reads whether an address is a contract, and caches the result so that a paid call rarely has to read the payer's code. */
export class AccountCode {
  readonly #rpc: Rpc
  readonly #known = new LRUCache<string, boolean>({ max: 10_000, ttl: WITHOUT_CODE_MS })

  constructor(rpc: Rpc) {
    this.#rpc = rpc
  }

  /** @throws {RpcUnreachable} or {RpcRefused} when nothing is cached and no node responds */
  async isContract(address: string): Promise<boolean> {
    return (
      this.#known.get(address) ?? this.note(address, await this.#rpc.call('eth_getCode', address, 'latest'))
    )
  }

  /** The cached value, or undefined if the caller has to ask the chain. */
  remembered(address: string): boolean | undefined {
    return this.#known.get(address)
  }

  /**
   * Caches a response to `eth_getCode` that another caller requested.
   * @returns whether it is a contract
   */
  note(address: string, code: unknown): boolean {
    const isContract = typeof code === 'string' && code.length > 2
    this.#known.set(address, isContract, { ttl: isContract ? WITH_CODE_MS : WITHOUT_CODE_MS })
    return isContract
  }

  /** Drops the cached value, because the address is about to get code. */
  forget(address: string): void {
    this.#known.delete(address)
  }
}
