/** @import { AgentView } from '../../../agents/agent.ts' */
import { openForm, showOnce } from '../dialog.js'
import { cardHead, empty, failed, field, heading, input, loading } from '../fields.js'
import { isLoud } from '../grants.js'
import { button, fill, h } from '../html.js'
import { call, wordsOf } from '../session.js'
import { timeOf } from '../words.js'
import { assetsOf } from './budget.js'
import { createScopePicker } from './scopePicker.js'

/**
 * Who may ask.
 *
 * @param {HTMLElement} main
 * @returns {() => void}
 */
export function showAgents(main) {
  const list = h('div', { class: 'cards' }, loading())
  let isLeft = false
  fill(
    main,
    heading(
      'Agents',
      button('Add agent', () => void add(), { kind: 'primary', icon: 'plus' }),
    ),
    list,
  )
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
                    h('span', { class: 'muted' }, timeOf(one.revoked_at ?? '')),
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
      cardHead(name, undefined, h('span', { class: 'muted small-text' }, 'added ', timeOf(created_at))),
      scopes.length === 0
        ? h('p', { class: 'muted' }, 'It may do nothing yet: change its scopes.')
        : h(
            'ul',
            { class: 'tags', 'aria-label': 'Scopes' },
            scopes.map((scope) =>
              h(
                'li',
                isLoud(scope) ? { class: 'loud', title: 'It gets the secret itself' } : {},
                h('code', {}, scope),
              ),
            ),
          ),
      h('p', { class: 'muted small-text' }, `At most ${requests_per_minute} requests a minute.`),
      agent.suspended
        ? h(
            'p',
            { class: 'verdict', 'data-tone': 'wait' },
            'It waits since the vault was restored from a backup. Let it go on if you still know it.',
          )
        : null,
      h(
        'div',
        { class: 'actions' },
        agent.suspended
          ? button('Let it go on', () => void goOn(agent), {
              kind: 'small primary',
              name: `Let ${name} go on`,
            })
          : null,
        button('Change', () => void edit(agent), { kind: 'small', name: `Change ${name}` }),
        button('New token', () => rotate(agent), { kind: 'small', name: `New token for ${name}` }),
        button('Revoke', () => revoke(agent), { kind: 'small danger', name: `Revoke ${name}` }),
      ),
    )
  }

  async function add() {
    const scopes = await pickerFor([])
    openForm({
      title: 'Add an agent',
      content: [
        field(
          'Name',
          input('name', { maxlength: 64, required: true }),
          'Shown in every question and in the log.',
        ),
        scopes.element,
        rateField(null),
      ],
      action: 'Add agent',
      async send(form) {
        const { name, token } = await call('POST', '/agents', {
          name: form.get('name'),
          scopes: scopes.lines(),
          requests_per_minute: rateOf(form),
        })
        handOut(name, token)
        await load()
      },
    }).classList.add('wide')
  }

  /** @param {AgentView} agent */
  async function edit({ id, name, scopes: granted, requests_per_minute }) {
    const scopes = await pickerFor(granted)
    openForm({
      title: `Change ${name}`,
      content: [scopes.element, rateField(requests_per_minute)],
      action: 'Save',
      async send(form) {
        await call('PATCH', `/agents/${id}`, { scopes: scopes.lines(), requests_per_minute: rateOf(form) })
        await load()
      },
    }).classList.add('wide')
  }

  /** @param {Pick<AgentView, 'id' | 'name'>} agent */
  async function goOn({ id, name }) {
    try {
      await call('PATCH', `/agents/${id}`, { suspended: false })
      await load()
    } catch (error) {
      openForm({
        title: `${name} still waits`,
        content: [h('p', {}, wordsOf(error))],
        action: 'Try again',
        send: () => goOn({ id, name }),
      })
    }
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

/** A picker with what there is to choose from; without it where the vault could not be asked. @param {readonly string[]} granted */
async function pickerFor(granted) {
  const [stored, chains] = await Promise.all([
    call('GET', '/scopes').then(
      ({ scopes }) => scopes.map((/** @type {{ scope: string }} */ { scope }) => scope),
      () => [],
    ),
    assetsOf().then(
      (assets) => [...new Set(assets.map(({ chain }) => chain))],
      () => [],
    ),
  ])
  return createScopePicker({ granted, stored, chains })
}

/** @param {number | null} rate */
const rateField = (rate) =>
  field('Requests a minute', input('rate', { inputmode: 'numeric', value: rate ?? '' }), 'Empty for 120.')

/** @param {FormData} form */
function rateOf(form) {
  const rate = String(form.get('rate')).trim()
  return rate === '' ? null : Number(rate)
}
