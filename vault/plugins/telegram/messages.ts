import type { ApprovalDesk, ApprovalQuestion, PluginStore } from '../../../core/plugin/vault.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { buttonData } from './buttons.ts'
import type { Button, Chat } from './chat.ts'
import { adviceOf, failureOf, isUnchanged, StillOpen } from './failure.ts'
import type { Outbox } from './outbox.ts'
import { questionText } from './questionText.ts'

/** Which message shows which question: kept in the vault, so that a restart neither asks twice nor leaves one behind. */
export interface Messages {
  /** A question is new, or is not what it was: the chat shall show it. */
  changed(question: ApprovalQuestion): void
  /** After the start and each unlock: what was kept is read, and everything that is open and not shown is asked. */
  sync(): void
  /** A button of this message was pressed: it shall show its question as it stands now. */
  refresh(question: ApprovalQuestion, messageId: number): void
  /** The group was upgraded: its messages can't be edited any more, and what is open is asked in the new chat. */
  moved(): void
}

export interface MessagesParts {
  /** The chat of the configuration. */
  readonly chatId: number
  readonly desk: ApprovalDesk
  readonly store: PluginStore
  readonly chat: Chat
  readonly outbox: Outbox
  readonly clock: Clock
  readonly log: Log
}

interface Shown {
  readonly messageId: number
  readonly state: ApprovalQuestion['state']
}

/** What is on disk: messages whose question was not at its end when they were sent or edited last. */
interface Kept {
  /** The chat that the configured group was upgraded to, and which group that was. */
  readonly moved?: { readonly from: number; readonly to: number }
  readonly messages: Readonly<Record<string, Shown>>
}

export function createMessages({ chatId, desk, store, chat, outbox, clock, log }: MessagesParts): Messages {
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
      // Locked in between: what is in memory is written with the next change.
      log.debug({ code: (error as { code?: unknown }).code }, 'which messages were sent could not be kept')
    }
  }

  async function show(id: string): Promise<void> {
    const question = desk.get(id)
    // The vault is locked: what changed meanwhile is found by the next sync.
    if (question === undefined) return
    const before = shown.get(id)
    if (before === undefined) return ask(question)
    if (before.state === question.state) return
    await edit(question, before.messageId)
    if (isOver(question)) shown.delete(id)
    else shown.set(id, { ...before, state: question.state })
    await keep()
  }

  async function ask(question: ApprovalQuestion): Promise<void> {
    if (question.state !== 'pending' || clock.now() >= question.expiresAtMs) return
    const text = questionText(question)
    const messageId = await chat.send(text, buttonsOf(question, text.isWhole)).catch((error: unknown) => {
      const failure = failureOf(error)
      isInTrouble = true
      desk.trouble(adviceOf(failure))
      throw new StillOpen(failure)
    })
    if (isInTrouble) desk.trouble(null)
    isInTrouble = false
    shown.set(question.id, { messageId, state: question.state })
    await keep()
    log.debug({ approval: question.id, messageId }, 'asked in the chat')
  }

  async function edit(question: ApprovalQuestion, messageId: number): Promise<void> {
    const text = questionText(question)
    try {
      await chat.edit(messageId, text, buttonsOf(question, text.isWhole))
    } catch (error) {
      const failure = failureOf(error)
      if (isUnchanged(failure)) return
      // A message that was deleted, or is too old to be edited, shows nothing that could be pressed.
      if (!failure.isFinal) throw error
      log.debug({ code: failure.code, reason: failure.message, messageId }, 'a message can not be edited')
    }
  }

  const changed = ({ id }: ApprovalQuestion): void => outbox.put(`question ${id}`, () => show(id))

  return {
    changed,
    sync() {
      if (desk.isLocked()) return
      read()
      let isGone = false
      for (const id of shown.keys()) {
        const question = desk.get(id)
        if (question !== undefined) changed(question)
        else isGone = shown.delete(id)
      }
      for (const question of desk.open()) changed(question)
      if (isGone) outbox.put('kept', keep)
    },
    moved() {
      log.warn({ chatId: chat.id }, 'the group was upgraded to another chat, which is asked from now on')
      shown.clear()
      for (const question of desk.open()) changed(question)
      outbox.put('kept', keep)
    },
    refresh(question, messageId) {
      if (shown.get(question.id)?.messageId === messageId) return changed(question)
      outbox.put(`message ${messageId}`, () => edit(desk.get(question.id) ?? question, messageId))
    },
  }
}

const isOver = ({ state }: ApprovalQuestion): boolean => state !== 'pending' && state !== 'approved'

function buttonsOf(question: ApprovalQuestion, isWhole: boolean): Button[] {
  if (question.state !== 'pending') return []
  const approve = isWhole && !question.isOpaque ? buttonData('approve', question) : undefined
  const deny = buttonData('deny', question)
  return [
    ...(approve === undefined ? [] : [{ text: '✅ Approve', data: approve }]),
    ...(deny === undefined ? [] : [{ text: '⛔ Deny', data: deny }]),
  ]
}
