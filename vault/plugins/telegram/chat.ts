import { Api } from 'grammy'
import type { VaultPorts } from '../../../core/plugin/vault.ts'
import { failureOf } from './failure.ts'
import type { QuestionText } from './questionText.ts'

/** Answers of the Bot API are small; 100 updates of long texts are below this. */
const MAX_BYTES = 4_000_000

export interface ChatOptions {
  readonly token: string
  readonly chatId: number
  readonly apiRoot: string
  readonly pollSeconds: number
  readonly timeoutMs: number
}

/** One button below a message. */
export interface Button {
  readonly text: string
  readonly data: string
}

/** A person at the other end: what was pressed or written, where and by whom. */
export interface Incoming {
  readonly chatId: number | undefined
  readonly userId: number
  /** What was written, or what the button carries. */
  readonly text: string
  /** Set for a press. */
  readonly press?: { readonly queryId: string; readonly messageId: number | undefined }
}

/** The Bot API, as far as this channel uses it. Every method throws what grammY does: see `failureOf`. */
export interface Chat {
  /** The chat that is asked: the configured one, or the one that its group was upgraded to. */
  readonly id: number
  /** The group was upgraded: from here on the chat has this id. */
  moveTo(chatId: number): void
  /** The message's id. */
  send(text: QuestionText, buttons: readonly Button[]): Promise<number>
  edit(messageId: number, text: QuestionText, buttons: readonly Button[]): Promise<void>
  say(text: string): Promise<void>
  /** Shows whoever pressed a button what became of it. */
  answer(queryId: string, text: string): Promise<void>
  /** Waits for what people do, up to `pollSeconds`. What was received once is confirmed by the next call. */
  receive(): Promise<readonly Incoming[]>
}

/**
 * @param onMoved called after the group was upgraded to another chat
 * @param stop ends the waiting for people
 * @param end  ends every call that is under way
 */
export function createChat(
  options: ChatOptions,
  egress: VaultPorts['egress'],
  onMoved: () => void,
  stop: AbortSignal,
  end: AbortSignal,
): Chat {
  const { token, apiRoot, pollSeconds, timeoutMs } = options
  const apiWith = (ms: number) =>
    new Api(token, { apiRoot, fetch: egressFetch(egress, ms) as never, timeoutSeconds: ms / 1_000 + 5 })
  const api = apiWith(timeoutMs)
  const polling = apiWith(timeoutMs + pollSeconds * 1_000)
  // grammY's type is that of its own signal class; any signal will do.
  const given = end as never
  let offset = 0
  let { chatId } = options

  function moveTo(next: number): void {
    if (next === chatId) return
    chatId = next
    onMoved()
  }

  /** Calls for the chat, and for the one that it was upgraded to where that is the answer. */
  async function inChat<T>(work: (chatId: number) => Promise<T>): Promise<T> {
    try {
      return await work(chatId)
    } catch (error) {
      const { movedTo } = failureOf(error)
      if (movedTo === undefined || movedTo === chatId) throw error
      moveTo(movedTo)
      return work(movedTo)
    }
  }

  const keyboard = (buttons: readonly Button[]) => ({
    link_preview_options: { is_disabled: true },
    reply_markup: {
      inline_keyboard:
        buttons.length === 0 ? [] : [buttons.map(({ text, data }) => ({ text, callback_data: data }))],
    },
  })

  return {
    get id() {
      return chatId
    },
    moveTo(next) {
      chatId = next
    },
    async send({ text, entities }, buttons) {
      const more = { entities, ...keyboard(buttons) }
      const sent = await inChat((id) => api.sendMessage(id, text, more, given))
      return sent.message_id
    },
    async edit(messageId, { text, entities }, buttons) {
      const more = { entities, ...keyboard(buttons) }
      await inChat((id) => api.editMessageText(id, messageId, text, more, given))
    },
    async say(text) {
      await inChat((id) => api.sendMessage(id, text, {}, given))
    },
    async answer(queryId, text) {
      await api.answerCallbackQuery(queryId, { text: text.slice(0, 200), show_alert: true }, given)
    },
    async receive() {
      const updates = await polling.getUpdates(
        { offset, timeout: pollSeconds, allowed_updates: ['message', 'callback_query'] },
        stop as never,
      )
      for (const { update_id } of updates) offset = Math.max(offset, update_id + 1)
      return updates.flatMap(({ message, callback_query: query }): Incoming[] => {
        if (query !== undefined) {
          const { id, from, data, message: shown } = query
          const press = { queryId: id, messageId: shown?.message_id }
          return [{ chatId: shown?.chat.id, userId: from.id, text: data ?? '', press }]
        }
        if (message?.migrate_to_chat_id !== undefined && message.chat.id === chatId)
          moveTo(message.migrate_to_chat_id)
        if (message?.from === undefined) return []
        return [{ chatId: message.chat.id, userId: message.from.id, text: message.text ?? '' }]
      })
    },
  }
}

/** As much of `fetch` as grammY uses. */
type Fetch = (
  url: string,
  init: { method?: string; headers?: Record<string, string>; body?: unknown; signal?: AbortSignal },
) => Promise<{ json(): Promise<unknown> }>

/**
 * A `fetch` over the way out that the vault grants plugins, for grammY, which would open connections of its own
 * (node-fetch): addresses are checked, redirects are not followed, no proxy of the environment is used, and answers are
 * bounded in size and time.
 */
const egressFetch =
  (egress: VaultPorts['egress'], timeoutMs: number): Fetch =>
  async (url, { method = 'GET', headers = {}, body, signal }) => {
    // Strings only: nothing is ever uploaded.
    if (typeof body !== 'string') throw new Error('Expected a body of JSON.')
    const given = new AbortController()
    const giveUp = () => given.abort()
    // grammY brings a signal class of its own.
    signal?.addEventListener('abort', giveUp)
    if (signal?.aborted) giveUp()
    try {
      const answer = await egress.request({
        url,
        method,
        headers,
        body,
        timeoutMs,
        maxBytes: MAX_BYTES,
        signal: given.signal,
      })
      return { json: async () => readAnswer(answer.status, answer.body) }
    } finally {
      signal?.removeEventListener('abort', giveUp)
    }
  }

/** The Bot API says in JSON what went wrong, too; a proxy in front of it does not. */
function readAnswer(status: number, body: Uint8Array): object {
  const value: unknown = parsed(Buffer.from(body).toString('utf8'))
  const isAnswer = typeof value === 'object' && value !== null && 'ok' in value
  return isAnswer
    ? value
    : {
        ok: false,
        error_code: status < 400 ? 502 : status,
        description: 'The answer is not JSON of the Bot API.',
      }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
