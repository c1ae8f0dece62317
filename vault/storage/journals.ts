import { randomBytes } from 'node:crypto'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import type { AuditLimits } from '../audit/dropOld.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { HostKeys } from '../signer/hostKeys.ts'
import type { SigningProcess } from '../signer/signingProcess.ts'
import { backupSaltBytes, writeBackup } from './backup.ts'
import { budgetPlace, recordsPlace, type VaultFiles } from './disk/vaultFiles.ts'
import type { VaultHeader } from './password/header.ts'
import {
  assertNewest,
  markText,
  type Positions,
  positionsOf,
  positionsText,
  readMark,
  readPositions,
  withNewHeader,
} from './positions.ts'
import { RecordStore } from './records/recordStore.ts'

export interface JournalsOptions {
  readonly files: VaultFiles
  /** As it is on disk. */
  readonly header: () => VaultHeader
  readonly clock: VaultClock
  readonly limits: AuditLimits | undefined
  readonly beforeUse: () => void
}

/**
 * What a vault writes down: its records, its budgets' journal and its log. Opened and closed together; each keeps how far
 * the others had come, so that an older copy of some of them is noticed.
 */
export class Journals {
  readonly #files: VaultFiles
  readonly #header: () => VaultHeader
  readonly store: RecordStore
  readonly budget: JournaledBudget
  readonly audit: ChainedAuditLog

  constructor({ files, header, clock, limits, beforeUse }: JournalsOptions) {
    this.#files = files
    this.#header = header
    this.store = new RecordStore(clock, beforeUse)
    this.budget = new JournaledBudget(clock, beforeUse)
    this.audit = ChainedAuditLog.open({
      folder: files.auditFolder,
      headFile: files.auditHead,
      clock,
      isOurs: files.isOurs,
      ...(limits !== undefined && { limits }),
      files: () => this.#positions && positionsText(this.#positions),
      remember: (log) => {
        const positions = this.#positions
        if (positions === undefined) return
        const mark = markText(log, positionsText(positions))
        for (const file of [this.store.log, this.budget.log]) file?.mark(mark).catch(() => {})
      },
    })
  }

  /** @param keys copied @throws `VAULT_CORRUPT` naming a file that is damaged or older than the others */
  open(vaultId: string, keys: HostKeys): void {
    this.store.open(recordsPlace(this.#files, vaultId, keys.recordsFile), keys.records)
    this.budget.open(budgetPlace(this.#files, vaultId, keys.budgetFile))
    const marks = [
      { by: 'records.log', mark: this.store.log!.lastMark },
      { by: 'budget.log', mark: this.budget.log!.lastMark },
    ].flatMap(({ by, mark }) => (mark === '' ? [] : [{ by, ...readMark(mark) }]))
    const others = [
      { by: 'the log', text: this.audit.lastFiles(keys.audit) ?? '' },
      { by: 'vault.json', text: this.#header().files },
    ].flatMap(({ by, text }) => (text === '' ? [] : [{ by, positions: readPositions(text) }]))
    // Before anything is written: an older file that goes on would come to the number that is expected of it.
    assertNewest(this.#positions!, [...marks, ...others])
    const anchors = marks.map(({ log }) => log).sort((a, b) => b.seq - a.seq)
    this.audit.unlock(keys.audit, anchors[0])
  }

  /** Tells in the log what is wrong with it, and that entries were written while it was locked. */
  async noteState(): Promise<void> {
    const { damage } = this.audit
    if (damage !== undefined) {
      await this.audit.append({
        agent: 'vault',
        action: 'CONFIG',
        status: 'FAILED',
        note: `The log: ${damage}.`,
      })
    }
    await this.audit.closeRun()
  }

  /** The signing process ended by itself. */
  async noteLoss(): Promise<void> {
    const note = 'the signing process ended by itself: the vault is locked until its owner opens it again'
    // A log that takes no entry keeps no vault open.
    await this.audit.append({ agent: 'vault', action: 'LOCK', status: 'FAILED', note }).catch(() => {})
  }

  async lock(): Promise<void> {
    await this.audit.save()
    await this.store.close()
    await this.budget.close()
    await this.audit.lock()
  }

  /** What a header says that takes the place of this one. */
  get withNewHeader(): string {
    return withNewHeader(this.#positions!)
  }

  get #positions(): Positions | undefined {
    return positionsOf(this.store, this.budget, this.#header())
  }

  /** @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE` */
  async backup(file: string, header: VaultHeader, process: SigningProcess): Promise<void> {
    const salt = randomBytes(backupSaltBytes)
    const key = await process.backupKey(salt)
    await writeBackup({
      file,
      header,
      salt,
      key,
      records: this.store.exportChanges(),
      budget: this.budget.exportChanges(),
      audit: this.audit,
    }).finally(() => key.fill(0))
  }
}
