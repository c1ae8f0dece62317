/** @import { AgentView } from '../../../agents/agent.ts' */
import { openForm, showOnce } from '../dialog.js'
import { area, cardHead, empty, failed, field, heading, input, linesOf, loading } from '../fields.js'
import { button, fill, h } from '../html.js'
import { call, wordsOf } from '../session.js'
import { whenOf } from '../words.js'

const scopeHint =
  'One a line, such as identity.name or wallet.base. Put ask: before one to be asked every time, auto:write: to let it write without asking.'

/**
 * Who may ask.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showAgents(main) {
  const list = h('div', { class: 'cards' }, loading())
  let isLeft = false
  fill(main, heading('Agents', button('Add agent', add, { kind: 'primary', icon: 'plus' })), list)
  void load()
  return () => {
    isLeft = true
  }

  async function load() {
    try {
      /** @type {{ agents: AgentView[] }} */
      const { agents } = await call('GET', '/agents')
      if (isLeft) return
      const [gone, live] = [
        agents.filter((one) => one.revoked_at !== null),
        agents.filter((one) => one.revoked_at === null),
      ]
      fill(
        list,
        live.length > 0
          ? live.map(cardOf)
          : empty(
              'No agent is let in',
              h('p', {}, 'Add one, give it the scopes that it needs, and hand it the token.'),
            ),
        gone.length === 0
          ? null
          : h(
              'details',
              { class: 'gone' },
              h('summary', {}, `${gone.length} revoked`),
              h(
                'ul',
                { class: 'rows' },
                gone.map((one) =>
                  h(
                    'li',
                    { class: 'row' },
                    h('span', {}, one.name),
                    h('span', { class: 'muted' }, whenOf(one.revoked_at ?? '')),
                  ),
                ),
              ),
            ),
      )
    } catch (error) {
      if (!isLeft)
        fill(
          list,
          failed(wordsOf(error), () => void load()),
        )
    }
  }

  /** @param {AgentView} agent */
  function cardOf(agent) {
    const { name, scopes, requests_per_minute, created_at } = agent
    return h(
      'article',
      { class: 'card', 'aria-label': name },
      cardHead(name, undefined, h('span', { class: 'muted small-text' }, 'since ', whenOf(created_at))),
      scopes.length === 0
        ? h('p', { class: 'muted' }, 'It may do nothing yet: change its scopes.')
        : h(
            'ul',
            { class: 'tags', 'aria-label': 'Scopes' },
            scopes.map((scope) => h('li', {}, h('code', {}, scope))),
          ),
      h('p', { class: 'muted small-text' }, `At most ${requests_per_minute} requests a minute.`),
      h(
        'div',
        { class: 'actions' },
        button('Change', () => edit(agent), { kind: 'small', name: `Change ${name}` }),
        button('New token', () => rotate(agent), { kind: 'small', name: `New token for ${name}` }),
        button('Revoke', () => revoke(agent), { kind: 'small danger', name: `Revoke ${name}` }),
      ),
    )
  }

  function add() {
    openForm({
      title: 'Add an agent',
      content: [
        field(
          'Name',
          input('name', { maxlength: 64, required: true }),
          'Shown in every question and in the log.',
        ),
        ...fieldsOf([], null),
      ],
      action: 'Add agent',
      async send(form) {
        const { name, token } = await call('POST', '/agents', { name: form.get('name'), ...valuesOf(form) })
        handOut(name, token)
        await load()
      },
    })
  }

  /** @param {AgentView} agent */
  function edit({ id, name, scopes, requests_per_minute }) {
    openForm({
      title: `Change ${name}`,
      content: fieldsOf(scopes, requests_per_minute),
      action: 'Save',
      async send(form) {
        await call('PATCH', `/agents/${id}`, valuesOf(form))
        await load()
      },
    })
  }

  /** @param {AgentView} agent */
  function rotate({ id, name }) {
    openForm({
      title: `A new token for ${name}?`,
      content: [h('p', {}, 'The old one is worth nothing from then on.')],
      action: 'Make a new token',
      async send() {
        const { token } = await call('POST', `/agents/${id}/rotate`, {})
        handOut(name, token)
      },
    })
  }

  /** @param {AgentView} agent */
  function revoke({ id, name }) {
    openForm({
      title: `Revoke ${name}?`,
      content: [
        h(
          'p',
          {},
          'It gets nothing any more, and what it waits for is taken back. This is for good; the name can be given again.',
        ),
      ],
      action: 'Revoke',
      kind: 'danger',
      async send() {
        await call('POST', `/agents/${id}/revoke`, {})
        await load()
      },
    })
  }
}

/** @param {string} name @param {string} token */
const handOut = (name, token) =>
  showOnce({
    title: `The token of ${name}`,
    intro: 'Give it to the agent now. It is shown once.',
    secret: token,
    label: 'token',
    outro: `The agent sends it as Authorization: Bearer … to ${location.origin}.`,
  })

/** @param {readonly string[]} scopes @param {number | null} rate */
const fieldsOf = (scopes, rate) => [
  field('Scopes', area('scopes', scopes.join('\n'), { rows: 5 }), scopeHint),
  field('Requests a minute', input('rate', { inputmode: 'numeric', value: rate ?? '' }), 'Empty for 120.'),
]

/** @param {FormData} form */
function valuesOf(form) {
  const rate = String(form.get('rate')).trim()
  return { scopes: linesOf(form.get('scopes')), requests_per_minute: rate === '' ? null : Number(rate) }
}
