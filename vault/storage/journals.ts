import { randomBytes } from 'node:crypto'
import { ChainedAuditLog } from '../audit/chainedAuditLog.ts'
import type { AuditLimits } from '../audit/dropOld.ts'
import { JournaledBudget } from '../budget/journaledBudget.ts'
import type { AuditMark } from '../ports/audit.ts'
import type { VaultClock } from '../ports/clock.ts'
import type { HostKeys } from '../signer/hostKeys.ts'
import type { SigningProcess } from '../signer/signingProcess.ts'
import { backupSaltBytes, writeBackup } from './backup.ts'
import { budgetPlace, recordsPlace, type VaultFiles } from './disk/vaultFiles.ts'
import { firstVersionLogId } from './oldHome.ts'
import type { VaultHeader } from './password/header.ts'
import { RecordStore } from './records/recordStore.ts'

/** How far the log had come, kept with what an older copy of the log and its head does not bring along. */
const logMarkId = 'log-mark'

/** What a vault writes down: its records, its budgets' journal and its log. Opened and closed together. */
export class Journals {
  readonly #files: VaultFiles
  readonly store: RecordStore
  readonly budget: JournaledBudget
  readonly audit: ChainedAuditLog

  constructor(files: VaultFiles, clock: VaultClock, limits: AuditLimits | undefined, beforeUse: () => void) {
    this.#files = files
    this.store = new RecordStore(clock, beforeUse)
    this.budget = new JournaledBudget(clock, beforeUse)
    this.audit = ChainedAuditLog.open({
      folder: files.auditFolder,
      headFile: files.auditHead,
      clock,
      isOurs: files.isOurs,
      ...(limits !== undefined && { limits }),
      remember: (mark) => void this.store.note(logMarkId, mark).catch(() => {}),
    })
  }

  /** @param keys copied */
  open(vaultId: string, keys: HostKeys): void {
    this.store.open(recordsPlace(this.#files, vaultId, keys.recordsFile), keys.records)
    this.budget.open(budgetPlace(this.#files, vaultId, keys.budgetFile))
    const marks = [logMarkId, firstVersionLogId].map((id) => this.store.getJson<AuditMark>('key', id))
    this.audit.unlock(keys.audit, ...marks)
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

  /** @throws `ALREADY_EXISTS`, `STORAGE_UNAVAILABLE` */
  async backup(file: string, header: VaultHeader, process: SigningProcess): Promise<void> {
    const salt = randomBytes(backupSaltBytes)
    const key = await process.fileKey('backup', salt)
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
