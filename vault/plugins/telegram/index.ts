import { readFileSync, statSync } from 'node:fs'
import { vaultPlugin } from '../../../core/plugin/vault.ts'
import { createChat } from './chat.ts'
import { failureOf } from './failure.ts'
import { createMessages } from './messages.ts'
import { options } from './options.ts'
import { createBackoff, createOutbox } from './outbox.ts'
import { createResponses } from './responses.ts'

/** How long calls in flight may take when the vault closes, in ms. */
const FAREWELL_MS = 1_000

/**
 * Sends approvals to a Telegram chat and accepts the owner's decision there. It is another channel besides the approvals page,
 * bound to the same decision hash. It has no hook in any request, so no failure of Telegram delays a request.
 */
export default vaultPlugin({
  name: 'telegram',
  api: 1,
  options,
  needs: ['approvals', 'egress', 'store', 'clock', 'log'],
  setup(given, { ports: { approvals: approvalQueue, egress, store, clock, log } }) {
    const { botToken, botTokenFile, chatId, userIds, lockNotices, retryMinMs, retryMaxMs } = given
    const token = readToken(botToken, botTokenFile)
    if (chatId < 0 && userIds.length === 0)
      throw new Error(
        'Expected userIds next to the chatId of a group, because otherwise every member of the group could decide approvals.',
      )
    if (chatId === 0) throw new Error('chatId: Expected the id of a chat, got 0.')

    const closing = new AbortController()
    const ending = new AbortController()
    const { signal } = closing
    const backoff = () => createBackoff(retryMinMs, retryMaxMs)
    const chat = createChat({ ...given, token }, egress, () => messages.moved(), signal, ending.signal)
    const outbox = createOutbox({ backoff: backoff(), signal, log })
    const messages = createMessages({ chatId, approvalQueue, store, chat, outbox, clock, log })
    const respond = createResponses({ approvalQueue, chat, messages, chatId, userIds, clock, log })
    const stops: (() => void)[] = []
    let running: Promise<unknown> = Promise.resolve()

    /** Polls the chat until the vault closes. Each new kind of failure is logged once. */
    async function listen(): Promise<void> {
      const retry = backoff()
      let failing: unknown
      while (!signal.aborted) {
        try {
          const received = await chat.receive()
          if (failing !== undefined) log.info({}, 'the chat can be read again')
          failing = undefined
          retry.reset()
          for (const incoming of received) await respond(incoming)
        } catch (error) {
          if (signal.aborted) return
          const failure = failureOf(error)
          const { code, message } = failure
          if (failing !== code) log.warn({ code, reason: message }, adviceFor(code))
          failing = code
          await retry.wait(failure, signal)
        }
      }
    }

    function lockChanged(isLocked: boolean): void {
      if (!isLocked) messages.sync()
      else if (lockNotices)
        outbox.put('lock', async () => {
          if (approvalQueue.isLocked())
            await chat.say('🔒 The vault is locked. Approvals wait until it is unlocked.')
        })
    }

    return {
      route: () => undefined,
      start() {
        stops.push(approvalQueue.watch(messages.changed), approvalQueue.watchLock(lockChanged))
        messages.sync()
        running = Promise.all([outbox.run(), listen()]).catch((error: unknown) => {
          const { code, message } = failureOf(error)
          log.error({ code, reason: message }, 'the chat channel stopped until the vault is restarted')
        })
      },
      async close() {
        for (const stop of stops.splice(0)) stop()
        closing.abort()
        // A message that is being sent is finished, so that the vault records it.
        const late = setTimeout(() => ending.abort(), FAREWELL_MS)
        await running
        clearTimeout(late)
      },
    }
  },
})

const adviceFor = (code: number | string): string => {
  if (code === 401 || code === 404) return 'the Bot API does not know this bot. Check the token of the bot'
  if (code === 'VALIDATION_ERROR')
    return 'apiRoot is not a public address. Allow the range of this address in pluginEgress'
  if (code === 409)
    return 'another program reads the messages of this bot, or the bot has a webhook. Use the bot for one vault only'
  return 'the chat cannot be read'
}

const form = /^[0-9]{3,20}:[A-Za-z0-9_-]{20,100}$/

/**
 * The bot's token. With it, all approvals can be read and decisions sent as the bot, so it is in no message.
 *
 * @throws {Error} when there is no token or there are two, or the file is missing or readable by other users
 */
function readToken(botToken: string | undefined, botTokenFile: string | undefined): string {
  if ((botToken === undefined) === (botTokenFile === undefined))
    throw new Error('Expected exactly one of botToken and botTokenFile.')
  if (botTokenFile === undefined) return botToken!
  let text: string
  try {
    if ((statSync(botTokenFile).mode & 0o077) !== 0)
      throw new Error(`Other users can read ${botTokenFile}. Set its mode to 0600.`)
    text = readFileSync(botTokenFile, 'utf8').trim()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === undefined) throw cause
    throw new Error(`Cannot read botTokenFile ${botTokenFile}: ${code}.`)
  }
  if (form.test(text)) return text
  throw new Error(`Expected the token of a Telegram bot in ${botTokenFile}, such as 123456789:AA….`)
}
