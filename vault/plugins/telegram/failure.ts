import { GrammyError, HttpError } from 'grammy'

/** What went wrong with a call of the Bot API, without its URL, which carries the token. */
export interface Failure {
  /** The Bot API's code (an HTTP status), or what the connection came to: `EGRESS_TIMEOUT` … */
  readonly code: number | string
  readonly message: string
  /** What the Bot API wants to be left alone for, in milliseconds. */
  readonly retryAfterMs: number | undefined
  /** The same call can never succeed: what it is about is gone, or not allowed. */
  readonly isFinal: boolean
  /** The chat that the group was upgraded to: the call goes there. */
  readonly movedTo?: number | undefined
}

/** A question that could not be shown and is still open: sent again after every answer of the Bot API. */
export class StillOpen extends Error {
  readonly failure: Failure
  constructor(failure: Failure) {
    super(failure.message)
    this.failure = { ...failure, isFinal: false }
  }
}

/** What the owner has to mend, in words of the vault. */
export function adviceOf({ code, message }: Failure): string {
  if (code === 401 || code === 404) return 'The Bot API does not know this bot. Check its token.'
  if (/TOPIC_CLOSED|thread not found/i.test(message))
    return 'The topic General of the group is closed. Open it, or let the bot manage topics.'
  if (/blocked|deactivated/i.test(message)) return 'The user has blocked the bot. Unblock it.'
  if (/kicked|not a member|chat not found/i.test(message))
    return 'The bot is not in the chat, or the chat is gone. Add the bot, or correct chatId.'
  if (code === 400 || code === 403)
    return 'The Bot API refuses the message. Give the bot the right to send messages in the chat.'
  return `The Bot API can't be reached (${code}).`
}

const anyToken = /[0-9]{3,20}:[A-Za-z0-9_-]{20,100}/g

/** @param error whatever a call threw; only what is known to be harmless of it is kept. */
export function failureOf(error: unknown): Failure {
  if (error instanceof StillOpen) return error.failure
  if (error instanceof GrammyError) {
    const { error_code: code, description, parameters } = error
    return {
      code,
      message: withoutToken(description),
      retryAfterMs: parameters.retry_after === undefined ? undefined : parameters.retry_after * 1_000,
      isFinal: code === 400 || code === 403,
      movedTo: parameters.migrate_to_chat_id,
    }
  }
  const cause = error instanceof HttpError ? error.error : error
  const { code } = (cause ?? {}) as { code?: unknown }
  return {
    code: typeof code === 'string' ? code : 'FAILED',
    message: withoutToken(cause instanceof Error ? cause.message : 'The Bot API could not be asked.'),
    retryAfterMs: undefined,
    isFinal: false,
  }
}

/** True for the answer to an edit that changes nothing: it is there already. */
export const isUnchanged = ({ code, message }: Failure): boolean =>
  code === 400 && message.includes('message is not modified')

const withoutToken = (text: string): string => text.replaceAll(anyToken, '<token>').slice(0, 300)
