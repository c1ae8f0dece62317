import type { Payout } from '../../core/domain/link.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import { UsageError } from '../output/exitCodes.ts'
import { walletOf } from './createStore.ts'
import { openDataStore } from './open/openStore.ts'
import { readConfig } from './readConfig.ts'

export interface PayoutSet {
  readonly username: string
  readonly was: Payout
  readonly payout: Payout
}

/**
 * Sets the wallets that a store's sales are paid to, as the operator: no wallet signs, because whoever can write the
 * database may do this. A running gateway offers the new ones within a second.
 *
 * @param to the chains that change; null takes the wallet away
 * @throws `UsageError` for an unknown store, a wallet that can't be, or nothing to set
 */
export async function setPayout(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
  username: string,
  to: Partial<Payout>,
): Promise<PayoutSet> {
  const { base, solana } = to
  if (base === undefined && solana === undefined) {
    throw new UsageError('Expected --base or --solana with an address, or none to take the wallet away.')
  }
  const payout: Partial<Payout> = {
    ...(base !== undefined && { base: base && walletOf('base', base) }),
    ...(solana !== undefined && { solana: solana && walletOf('solana', solana) }),
  }
  const { config } = await readConfig(configFile, env)
  const db = await openDataStore(config, systemClock, silentLog)
  try {
    const store = await db.stores.byUsername(username)
    if (store === undefined) {
      throw new UsageError(
        `Expected the username of a store of this gateway, got ${JSON.stringify(username)}.`,
      )
    }
    const after = await db.stores.update(store.id, { payout }, systemClock.now())
    return { username, was: store.payout, payout: after?.payout ?? store.payout }
  } finally {
    await db.close()
  }
}
