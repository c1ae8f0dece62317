import type { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { type Clock, machineClock } from '../../core/ports/clock.ts'
import { BUSY_TIMEOUT_MS } from './connect.ts'
import { isBusy } from './failure.ts'
import { start } from './migrations/0001-start.ts'
import { refunds } from './migrations/0002-refunds.ts'
import { renames } from './migrations/0003-renames.ts'
import { payoutChanges } from './migrations/0004-payout-changes.ts'
import { books } from './migrations/0005-books.ts'
import { gas } from './migrations/0006-gas.ts'
import { reviews } from './migrations/0007-reviews.ts'
import { discovery } from './migrations/0008-discovery.ts'
import { webhooks } from './migrations/0009-webhooks.ts'
import { dueWebhooks } from './migrations/0010-due-webhooks.ts'
import { browserSessions } from './migrations/0011-browser-sessions.ts'
import { sessions } from './migrations/0012-sessions.ts'
import { figures } from './migrations/0013-figures.ts'
import { unusualPurchases } from './migrations/0014-unusual-purchases.ts'
import { sessionPayments } from './migrations/0015-session-payments.ts'
import { linkOrigins } from './migrations/0016-link-origins.ts'
import { pictures } from './migrations/0017-pictures.ts'
import { askedProbes } from './migrations/0018-asked-probes.ts'
import { sessionPayout } from './migrations/0019-session-payout.ts'
import { payoutSince } from './migrations/0020-payout-since.ts'
import { sessionAsks } from './migrations/0021-session-asks.ts'
import { linkPages } from './migrations/0023-link-pages.ts'
import { owedPurchases } from './migrations/0024-owed-purchases.ts'
import { ledger } from './migrations/0025-ledger.ts'
import { unpaidSessions } from './migrations/0026-unpaid-sessions.ts'
import { sums } from './migrations/0027-sums.ts'
import { checkSums } from './migrations/0028-check-sums.ts'
import { judgedDays } from './migrations/0030-judged-days.ts'
import { accountNumbers } from './migrations/0031-account-numbers.ts'
import { sharedAttempts } from './migrations/0032-shared-attempts.ts'
import { type Copying, packedSales } from './migrations/0033-packed-sales.ts'
import { doubtedRefunds } from './migrations/0034-doubted-refunds.ts'
import { nodeSqliteDialect } from './nodeSqliteDialect.ts'
import { sumOperations } from './sums/sumOperations.ts'
import { workerOf } from './workerOf.ts'

/** How long a process waits for another one that migrates: a million payments take some minutes. */
const MIGRATION_MS = 600_000

/** How long it waits for processes of an earlier version: longer than the leases of one last that was killed. */
const EARLIER_END_MS = 20_000

const LOOK_MS = 100

const SUMMED_AT_ONCE = 10_000

export interface MigrateOptions {
  /** Hears of rows that are written anew, where these may be millions. */
  readonly onProgress?: Copying['onProgress']
  /** Hears once that a process of an earlier version works on the database. */
  readonly onWait?: () => void
  /** The time of leases. Default: the machine's. */
  readonly storeClock?: Clock
}

/** All of them, in order of their names; listed here so that a bundled or compiled copy needs no directory to read. */
export const migrations = (copying: Copying): Record<string, Migration> => ({
  '0001-start': start,
  '0002-refunds': refunds,
  '0003-renames': renames,
  '0004-payout-changes': payoutChanges,
  '0005-books': books,
  '0006-gas': gas,
  '0007-reviews': reviews,
  '0008-discovery': discovery,
  '0009-webhooks': webhooks,
  '0010-due-webhooks': dueWebhooks,
  '0011-browser-sessions': browserSessions,
  '0012-sessions': sessions,
  '0013-figures': figures,
  '0014-unusual-purchases': unusualPurchases,
  '0015-session-payments': sessionPayments,
  '0016-link-origins': linkOrigins,
  '0017-pictures': pictures,
  '0018-asked-probes': askedProbes,
  '0019-session-payout': sessionPayout,
  '0020-payout-since': payoutSince,
  '0021-session-asks': sessionAsks,
  '0023-link-pages': linkPages,
  '0024-owed-purchases': owedPurchases,
  '0025-ledger': ledger,
  '0026-unpaid-sessions': unpaidSessions,
  '0027-sums': sums,
  '0028-check-sums': checkSums,
  '0030-judged-days': judgedDays,
  '0031-account-numbers': accountNumbers,
  '0032-shared-attempts': sharedAttempts,
  '0033-packed-sales': packedSales(copying),
  '0034-doubted-refunds': doubtedRefunds,
})

/**
 * Brings the tables up to date. Several processes may start at once: all of it happens inside one `BEGIN IMMEDIATE`, so
 * that one migrates while the others wait, and a crash in the middle leaves the old shape whole. Nothing is migrated below a
 * process of an earlier version that still runs: it would misread what is kept in another way now.
 *
 * @returns how many migrations were applied.
 * @throws when the database was written by a newer version, one of an earlier version works on it, or a migration fails.
 */
export async function migrate(
  database: DatabaseSync,
  { onProgress = () => {}, onWait = () => {}, storeClock = machineClock }: MigrateOptions = {},
): Promise<number> {
  await whenUnlocked(database, 'PRAGMA journal_mode = WAL')
  // A database that is up to date is not written to: it may stand on a full or read-only disk.
  const list = migrations({ database, onProgress })
  const isDone = () => isUpToDate(database, Object.keys(list))
  if (isDone()) return 0
  // All that a migration writes waits for one commit.
  database.exec('PRAGMA cache_size = -100000')
  // Off while tables that others refer to are made anew; inside a transaction it can not be switched.
  database.exec('PRAGMA foreign_keys = OFF')
  try {
    const giveUpAtMs = storeClock.now() + EARLIER_END_MS
    for (let looks = 0; ; looks++) {
      await whenUnlocked(database, 'BEGIN IMMEDIATE', MIGRATION_MS)
      if (workerOf(database, storeClock.now()) === undefined) break
      database.exec('ROLLBACK')
      // Those that have it may be of this version: another start was faster.
      if (isDone()) return 0
      if (storeClock.now() >= giveUpAtMs)
        throw new Error(
          'A gateway of an earlier version works on this database, which this version has to write anew first. ' +
            'Stop all processes of that version, then start this one. The database is as it was.',
        )
      if (looks === 0) onWait()
      await sleep(LOOK_MS)
    }
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) })
    const migrator = new Migrator({ db, provider: { getMigrations: async () => list } })
    const { error, results } = await migrator.migrateToLatest()
    if (error !== undefined) throw error
    // A million sales of before are added up in steps: what is held at once stays small.
    const { sumUp } = sumOperations(database)
    while (sumUp(SUMMED_AT_ONCE) > 0);
    const orphan = database.prepare('PRAGMA foreign_key_check').get()
    if (orphan !== undefined)
      throw new Error(
        `Expected a database that is whole, but row ${orphan['rowid']} of ${orphan['table']} belongs to none.`,
      )
    database.exec('COMMIT')
    return results?.length ?? 0
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK')
    throw error
  } finally {
    database.exec('PRAGMA foreign_keys = ON')
  }
}

/**
 * Runs a statement that needs a lock, asking again until it has it. Waiting inside SQLite would stop this thread, and with
 * it another store of this process that holds the lock; and for the journal mode SQLite does not wait at all, because two
 * that want to switch could wait for each other.
 */
async function whenUnlocked(database: DatabaseSync, sql: string, waitMs = BUSY_TIMEOUT_MS): Promise<void> {
  database.exec('PRAGMA busy_timeout = 0')
  const giveUpAt = performance.now() + waitMs
  for (;;) {
    try {
      database.exec(sql)
      break
    } catch (error) {
      if (!isBusy(error) || performance.now() > giveUpAt) throw error
      await sleep(10)
    }
  }
  database.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`)
}

function isUpToDate(database: DatabaseSync, names: readonly string[]): boolean {
  const table = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'kysely_migration'").get()
  if (table === undefined) return false
  const applied = database.prepare('SELECT name FROM kysely_migration ORDER BY name').all()
  const unknown = applied.find((row) => !names.includes(String(row['name'])))
  if (unknown !== undefined) {
    throw new Error(
      `Expected a database of this version or an older one, but it has the migration ${unknown['name']}. ` +
        'A newer version of Tollgate wrote it: install that version again, or restore a backup.',
    )
  }
  return applied.length === names.length
}
