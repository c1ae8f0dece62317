import { shortHash } from '../../../core/plugin/shortHash.ts'
import type { ApprovalDesk, ApprovalQuestion } from '../../../core/plugin/vault.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Log } from '../../../core/ports/log.ts'
import { type Press, readButton } from './buttons.ts'
import type { Chat, Incoming } from './chat.ts'
import { failureOf } from './failure.ts'
import type { Messages } from './messages.ts'
import { questionText } from './questionText.ts'

/** Somebody who is refused over and over is logged once in this time. */
const REFUSAL_LOG_MS = 60_000
const MOST_REMEMBERED = 1_000

export interface AnswersParts {
  readonly desk: ApprovalDesk
  readonly chat: Chat
  readonly messages: Messages
  readonly chatId: number
  /** The users who may answer; empty in a chat with one user, who may. */
  readonly userIds: readonly number[]
  readonly clock: Clock
  readonly log: Log
}

/** Takes what people do in the chat. What they must not do is refused and logged; nothing of it ever throws. */
export function createAnswers(parts: AnswersParts): (incoming: Incoming) => Promise<void> {
  const { desk, chat, messages, chatId, userIds, clock, log } = parts
  const refused = new Map<string, number>()
  const mayAnswer = ({ chatId: where, userId }: Incoming): boolean =>
    (where === chatId || where === chat.id) &&
    (userIds.length === 0 ? userId === chatId : userIds.includes(userId))

  function logRefusal({ chatId: where, userId }: Incoming): void {
    const key = `${where} ${userId}`
    const now = clock.now()
    if (now - (refused.get(key) ?? Number.NEGATIVE_INFINITY) < REFUSAL_LOG_MS) return
    if (refused.size >= MOST_REMEMBERED) refused.clear()
    refused.set(key, now)
    log.warn({ chatId: where, userId }, 'refused: only the configured chat and users may answer')
  }

  async function decide({ verb, id, decisionHash }: Press, userId: number): Promise<string> {
    const question = desk.get(id)
    if (desk.isLocked()) return locked
    if (question === undefined) return 'The vault has no such question any more.'
    if (question.decisionHash !== decisionHash)
      return `This button is for ${shortHash(decisionHash)}, the question now is ${shortHash(question.decisionHash)}. Nothing was done.`
    if (verb === 'approve' && question.state === 'pending' && !questionText(question).isWhole)
      return 'Not all of it was understood, or shown here. Approve it on the vault itself.'
    const by = `telegram user ${userId}`
    try {
      if (verb === 'approve') await desk.approve(id, decisionHash, by)
      else await desk.deny(id, by)
      log.info({ approval: id, userId, verb }, 'answered in the chat')
      return verb === 'approve' ? 'Approved.' : 'Denied.'
    } catch (error) {
      const { code } = error as { code?: unknown }
      if (code === 'VAULT_LOCKED') return locked
      if (code === 'APPROVAL_RESOLVED' || code === 'APPROVAL_EXPIRED')
        return tooLate(desk.get(id) ?? question)
      log.error({ code, approval: id }, 'an answer in the chat failed')
      return 'The vault could not do it. Look at its log.'
    }
  }

  return async (incoming) => {
    const { press, text, userId } = incoming
    try {
      if (!mayAnswer(incoming)) {
        logRefusal(incoming)
        if (press !== undefined) await chat.answer(press.queryId, 'This is not yours to answer.')
        return
      }
      if (press === undefined) {
        if (/^\/(?:start|status)(?:@\w+)?$/.test(text.trim())) await chat.say(statusOf(desk))
        return
      }
      const read = readButton(text)
      const words = read === undefined ? 'This button is none of the vault.' : await decide(read, userId)
      const question = read && desk.get(read.id)
      if (question !== undefined && press.messageId !== undefined && incoming.chatId === chat.id)
        messages.refresh(question, press.messageId)
      await chat.answer(press.queryId, words)
    } catch (error) {
      // What was decided is decided; only the words about it did not arrive.
      const { code, message } = failureOf(error)
      log.debug({ code, reason: message }, 'an answer to the chat did not arrive')
    }
  }
}

const locked = 'The vault is locked. Unlock it on its machine, then answer again.'

function tooLate({ state, decidedBy }: ApprovalQuestion): string {
  if (state === 'pending') return 'Somebody else is answering this right now.'
  if (state === 'expired') return 'Too late: nobody answered in time.'
  const what = state === 'consumed' || state === 'failed' ? 'approved' : state
  return decidedBy === null ? `Already ${what}.` : `Already ${what} by ${decidedBy}.`
}

function statusOf(desk: ApprovalDesk): string {
  if (desk.isLocked()) return 'The vault is locked.'
  const { length } = desk.open()
  return `The vault is open. ${length === 0 ? 'Nobody is' : length === 1 ? 'One question is' : `${length} questions are`} waiting.`
}
