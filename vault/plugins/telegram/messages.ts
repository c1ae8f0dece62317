import type { ApprovalQueue, ApprovalRequest, PluginStore } from '../../../core/plugin/vault.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { approvalText } from './approvalText.ts'
import type { Button, Chat } from './chat.ts'
import { adviceOf, failureOf, isUnchanged, StillOpen } from './failure.ts'
import type { Outbox } from './outbox.ts'

/** Maximum size of a button's data (Bot API, InlineKeyboardButton: "1-64 bytes"). */
const MAX_BYTES = 64
const hashForm = /^[0-9a-f]{64}$/
const dataForm = /^([yn])(.+)([A-Za-z0-9_-]{43})$/

/** The purpose of a button. */
export interface Press {
  readonly verb: 'approve' | 'deny'
  readonly id: string
  readonly decisionHash: string
}

/**
 * The data of a button: the decision, the approval's id and the whole decision hash. The hash binds a press to what the message
 * showed, even after a restart. It takes 43 characters of base64url. The remaining 20 are the length of approval ids.
 *
 * @returns undefined if the data does not fit. There is no button then
 */
export function buttonData(verb: Press['verb'], { id, decisionHash }: ApprovalRequest): string | undefined {
  if (!hashForm.test(decisionHash)) return undefined
  const data = `${verb === 'approve' ? 'y' : 'n'}${id}${Buffer.from(decisionHash, 'hex').toString('base64url')}`
  return Buffer.byteLength(data) <= MAX_BYTES ? data : undefined
}

/** Parses what {@link buttonData} wrote. Undefined for any other text. */
export function readButton(data: string): Press | undefined {
  const [, verb, id, hash] = dataForm.exec(data) ?? []
  if (id === undefined) return undefined
  const decisionHash = Buffer.from(hash!, 'base64url').toString('hex')
  return { verb: verb === 'y' ? 'approve' : 'deny', id, decisionHash }
}

/**
 * Records which message shows which approval. The vault stores the record, so that a restart neither sends a message twice nor
 * forgets one.
 */
export interface Messages {
  /** Called when an approval is new or has changed, so that the chat has to show it. */
  changed(approval: ApprovalRequest): void
  /** Called after the start and each unlock. Loads the stored messages, and sends every open approval that is not shown. */
  sync(): void
  /** Called when a button of a message was pressed. The message has to show the current state of its approval. */
  refresh(approval: ApprovalRequest, messageId: number): void
  /** Called when the group was upgraded. Its messages can no longer be edited. Open approvals are sent to the new chat. */
  moved(): void
}

export interface MessagesParts {
  /** The chat in the configuration. */
  readonly chatId: number
  readonly approvalQueue: ApprovalQueue
  readonly store: PluginStore
  readonly chat: Chat
  readonly outbox: Outbox
  readonly clock: Clock
  readonly log: Log
}

interface Shown {
  readonly messageId: number
  readonly state: ApprovalRequest['state']
}

/** The stored state. It has the messages whose approval was not final when they were last sent or edited. */
interface Kept {
  /** The configured group, and the chat to which it was upgraded. */
  readonly moved?: { readonly from: number; readonly to: number }
  readonly messages: Readonly<Record<string, Shown>>
}

export function createMessages({
  chatId,
  approvalQueue,
  store,
  chat,
  outbox,
  clock,
  log,
}: MessagesParts): Messages {
  const shown = new Map<string, Shown>()
  let isRead = false
  let isInTrouble = false

  function read(): void {
    if (isRead) return
    const { messages = {}, moved } = (store.read() ?? {}) as Partial<Kept>
    if (moved?.from === chatId) chat.moveTo(moved.to)
    for (const [id, message] of Object.entries(messages)) if (!shown.has(id)) shown.set(id, message)
    isRead = true
  }

  async function keep(): Promise<void> {
    try {
      await store.write({
        messages: Object.fromEntries(shown),
        ...(chat.id !== chatId && { moved: { from: chatId, to: chat.id } }),
      } satisfies Kept)
    } catch (error) {
      // The vault was locked meanwhile, so the next change writes the state.
      log.debug({ code: (error as { code?: unknown }).code }, 'the list of sent messages could not be saved')
    }
  }

  async function show(id: string): Promise<void> {
    const approval = approvalQueue.get(id)
    // The vault is locked. The next sync finds the changes.
    if (approval === undefined) return
    const before = shown.get(id)
    if (before === undefined) return ask(approval)
    if (before.state === approval.state) return
    await edit(approval, before.messageId)
    if (isOver(approval)) shown.delete(id)
    else shown.set(id, { ...before, state: approval.state })
    await keep()
  }

  async function ask(approval: ApprovalRequest): Promise<void> {
    if (approval.state !== 'pending' || clock.now() >= approval.expiresAtMs) return
    const text = approvalText(approval)
    const messageId = await chat.send(text, buttonsOf(approval, text.isWhole)).catch((error: unknown) => {
      const failure = failureOf(error)
      isInTrouble = true
      approvalQueue.trouble(adviceOf(failure))
      throw new StillOpen(failure)
    })
    if (isInTrouble) approvalQueue.trouble(null)
    isInTrouble = false
    shown.set(approval.id, { messageId, state: approval.state })
    await keep()
    log.debug({ approval: approval.id, messageId }, 'sent to the chat')
  }

  async function edit(approval: ApprovalRequest, messageId: number): Promise<void> {
    const text = approvalText(approval)
    try {
      await chat.edit(messageId, text, buttonsOf(approval, text.isWhole))
    } catch (error) {
      const failure = failureOf(error)
      if (isUnchanged(failure)) return
      // A deleted message, or one that is too old to be edited, has no buttons that a user could press.
      if (!failure.isFinal) throw error
      log.debug({ code: failure.code, reason: failure.message, messageId }, 'a message cannot be edited')
    }
  }

  const changed = ({ id }: ApprovalRequest): void => outbox.put(`question ${id}`, () => show(id))

  return {
    changed,
    sync() {
      if (approvalQueue.isLocked()) return
      read()
      let isGone = false
      for (const id of shown.keys()) {
        const approval = approvalQueue.get(id)
        if (approval !== undefined) changed(approval)
        else isGone = shown.delete(id)
      }
      for (const approval of approvalQueue.open()) changed(approval)
      if (isGone) outbox.put('kept', keep)
    },
    moved() {
      log.warn(
        { chatId: chat.id },
        'the group was upgraded to another chat, which gets the approvals from now on',
      )
      shown.clear()
      for (const approval of approvalQueue.open()) changed(approval)
      outbox.put('kept', keep)
    },
    refresh(approval, messageId) {
      if (shown.get(approval.id)?.messageId === messageId) return changed(approval)
      outbox.put(`message ${messageId}`, () => edit(approvalQueue.get(approval.id) ?? approval, messageId))
    },
  }
}

const isOver = ({ state }: ApprovalRequest): boolean => state !== 'pending' && state !== 'approved'

function buttonsOf(approval: ApprovalRequest, isWhole: boolean): Button[] {
  if (approval.state !== 'pending') return []
  const approve = isWhole && !approval.isOpaque ? buttonData('approve', approval) : undefined
  const deny = buttonData('deny', approval)
  return [
    ...(approve === undefined ? [] : [{ text: '✅ Approve', data: approve }]),
    ...(deny === undefined ? [] : [{ text: '⛔ Deny', data: deny }]),
  ]
}
