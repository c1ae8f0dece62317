import { KeyWatch } from '../../../../../adapters/chains/evm/settle/keyWatch.ts'
import { NonceQueue } from '../../../../../adapters/chains/evm/settle/nonces.ts'
import { type Log, silentLog } from '../../../../../core/ports/log.ts'

/** What a node says of a key, and what is known of it elsewhere. */
export interface Watched {
  readonly countOf: (block: string) => Promise<number>
  readonly newestBlock?: () => Promise<number>
  readonly sharedKeyMs?: number
  readonly log?: Log
  /** Numbers of payments that are open in the store. */
  readonly open?: readonly number[]
  /** Where the queue asks for its first number; the watch when absent. */
  readonly firstFree?: () => Promise<number>
}

/** A watch of a key that has signed nothing here, and its queue. */
export function watchedKey({
  countOf,
  newestBlock = async () => 0,
  sharedKeyMs = 60_000,
  log = silentLog,
  open = [],
  firstFree,
}: Watched): { watch: KeyWatch; queue: NonceQueue } {
  const queue: NonceQueue = new NonceQueue(firstFree ?? (() => watch.firstFree()))
  const watch: KeyWatch = new KeyWatch({
    ...{ network: 'eip155:84532', address: '0x', log, queue, countOf, newestBlock, sharedKeyMs },
    isOwn: () => false,
    openInStore: async () => new Map(open.map((nonce) => [nonce, true])),
  })
  return { watch, queue }
}
