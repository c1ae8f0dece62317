import type { ApprovalQuestion } from '../../../core/plugin/vault.ts'

/** Bot API, InlineKeyboardButton: "1-64 bytes". */
const MOST_BYTES = 64
const hashForm = /^[0-9a-f]{64}$/
const dataForm = /^([yn])(.+)([A-Za-z0-9_-]{43})$/

/** What a button was made for. */
export interface Press {
  readonly verb: 'approve' | 'deny'
  readonly id: string
  readonly decisionHash: string
}

/**
 * What a button carries: the answer, the question's id and the whole decision hash, so that a press is bound to what its
 * own message showed, whatever this process remembers. The hash as 43 characters of base64url leaves 20 for the id,
 * which is what ids of approvals have.
 *
 * @returns undefined when it does not fit: then there can be no button
 */
export function buttonData(verb: Press['verb'], { id, decisionHash }: ApprovalQuestion): string | undefined {
  if (!hashForm.test(decisionHash)) return undefined
  const data = `${verb === 'approve' ? 'y' : 'n'}${id}${Buffer.from(decisionHash, 'hex').toString('base64url')}`
  return Buffer.byteLength(data) <= MOST_BYTES ? data : undefined
}

/** What {@link buttonData} wrote, or undefined for anything else. */
export function readButton(data: string): Press | undefined {
  const [, verb, id, hash] = dataForm.exec(data) ?? []
  if (id === undefined) return undefined
  const decisionHash = Buffer.from(hash!, 'base64url').toString('hex')
  return { verb: verb === 'y' ? 'approve' : 'deny', id, decisionHash }
}
