import { Button } from '../components/button.ts'
import { Field, Select } from '../components/field.ts'
import { type Children, html } from '../html.ts'
import { ApiFault } from '../shell/api.ts'
import { addressWords, type FormWords, refuse, useForm } from '../shell/form.ts'
import type { Action } from '../shell/load.ts'
import { headersIn } from './import/importBody.ts'
import { REPEATED_CONDITION } from './priceRules.ts'
import { PriceTable } from './priceTable.ts'
import type { LinkResponse } from './types.ts'

/** Fields of the link form. */
export interface LinkFields {
  /** `standard` has no API. The buyer pays and is then sent to its URL. */
  readonly linkType: 'api' | 'standard'
  readonly title: string
  readonly url: string
  readonly price: string
  /** `rules` if the price depends on the request, `use` if it depends on the response. Only an API link can have these. */
  readonly pricing: 'one' | 'rules' | 'use'
  /** The prices by request, or the price by use, as JSON text. */
  readonly rules: string
  readonly description: string
  readonly slug: string
  readonly tags: string
  readonly webhookUrl: string
  readonly visibility: 'listed' | 'unlisted' | 'secret'
  /** Who can call the link by a wallet's signature instead of a payment. */
  readonly access: 'none' | 'paid-for' | 'signed-in'
  /** How long a purchase gives access, such as `24h`. */
  readonly paidFor: string
  /** Headers for a new host, one per line, such as `X-Key: value`. */
  readonly headers: string
}

const blank: LinkFields = {
  linkType: 'api',
  title: '',
  url: '',
  price: '0.01',
  pricing: 'one',
  rules: '',
  description: '',
  slug: '',
  tags: '',
  webhookUrl: '',
  visibility: 'listed',
  access: 'none',
  paidFor: '24h',
  headers: '',
}

const fieldsOf = (link: LinkResponse): LinkFields => ({
  linkType: link.linkType,
  title: link.title,
  url: link.url,
  price: typeof link.price === 'string' ? link.price : (link.priceMin ?? ''),
  pricing: typeof link.price === 'string' ? 'one' : 'upTo' in link.price ? 'use' : 'rules',
  rules: typeof link.price === 'string' ? '' : JSON.stringify(link.price, null, 2),
  description: link.description,
  slug: link.slug,
  tags: link.tags.join(', '),
  webhookUrl: link.webhookUrl ?? '',
  visibility: link.isStealth ? 'secret' : link.isPublic ? 'listed' : 'unlisted',
  ...accessFieldsOf(link.access),
  headers: '',
})

const accessFieldsOf = (access: LinkResponse['access']): Pick<LinkFields, 'access' | 'paidFor'> => ({
  access: access === null ? 'none' : access === 'signed-in' ? 'signed-in' : 'paid-for',
  paidFor: access === null || access === 'signed-in' ? blank.paidFor : access.paidFor,
})

const accessOf = ({ access, paidFor }: LinkFields): LinkResponse['access'] =>
  access === 'none' ? null : access === 'signed-in' ? access : { paidFor: paidFor.trim() }

/**
 * Whether the host has changed. The stored headers belong to the old host, so the API accepts a new host only with its own
 * headers, or with none.
 */
const isMoved = (fields: LinkFields, { url }: LinkResponse): boolean =>
  URL.parse(fields.url.trim())?.origin !== new URL(url).origin

/**
 * The headers of an API link. A `standard` link has none, so values that were typed before the field was hidden are ignored.
 */
const headersOf = (fields: LinkFields, before: LinkResponse | undefined) =>
  headersIn(
    fields.linkType === 'api' && before !== undefined && isMoved(fields, before) ? fields.headers : '',
  )

/** The price of these fields. A table or a price by use is parsed from its text. */
export function priceOf({ linkType, pricing, price, rules }: LinkFields): {
  readonly price: unknown
  readonly error?: string
} {
  if (linkType !== 'api' || pricing === 'one') return { price: price.trim() }
  if (rules === REPEATED_CONDITION)
    return { price: null, error: 'Write conditions on the same part of a request into one condition.' }
  try {
    const table: unknown = JSON.parse(rules)
    if (typeof table === 'object' && table !== null && !Array.isArray(table)) return { price: table }
    const fields = pricing === 'use' ? 'upTo, by and otherwise' : 'rules and otherwise'
    return { price: null, error: `Enter a JSON object with ${fields}.` }
  } catch (error) {
    return { price: null, error: `Enter JSON. ${(error as Error).message}` }
  }
}

/** The request body that creates a link from these fields. For an existing link, it has only the fields that changed. */
export function linkBody(fields: LinkFields, before?: LinkResponse): Record<string, unknown> {
  const { linkType, title, url, description, slug, tags, webhookUrl, visibility } = fields
  const body: Record<string, unknown> = {
    linkType,
    title,
    url: url.trim(),
    price: priceOf(fields).price,
    description,
    // A new link gets its slug from the title. An existing link must have a slug, so the API reports an empty one as an error.
    ...((before !== undefined || slug.trim() !== '') && { slug: slug.trim() }),
    tags: tags.split(/[\s,]+/).filter(Boolean),
    webhookUrl: webhookUrl.trim() || null,
    isPublic: visibility === 'listed',
    isStealth: visibility === 'secret',
    access: accessOf(fields),
    ...(before !== undefined &&
      isMoved(fields, before) && {
        upstreamHeaders: headersOf(fields, before).headers,
      }),
  }
  if (before === undefined) return body
  return Object.fromEntries(
    Object.entries(body).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof LinkResponse]),
    ),
  )
}

export interface LinkFormProps {
  /** The link that is edited. Undefined for a new link. */
  readonly link?: LinkResponse
  readonly action: Action
  readonly submit: string
  readonly onSubmit: (fields: LinkFields) => Promise<unknown>
  /** Shown beside the submit button. */
  readonly children?: Children
}

const kinds = [
  { linkType: 'api', title: 'Calls to an API' },
  { linkType: 'standard', title: 'A page or a file' },
] as const

const words: FormWords = {
  title: { expected: 'Enter a title that names what you sell.' },
  url: addressWords('Enter the full address, such as https://api.example.com/v1.'),
  price: {
    expected: 'Enter a price in USDC, such as 0.01, or 0 for free.',
    no_payout_wallet: 'A paid link needs a payout wallet. Add one in your profile first.',
  },
  upstreamHeaders: {},
  rules: {},
  access: { expected: 'Enter a number of minutes, hours or days, such as 30m, 24h or 7d.' },
  description: {},
  slug: {
    expected: 'Enter 3 to 64 characters of a-z, 0-9 and -.',
    SLUG_ALREADY_EXISTS: 'You already have a link with this slug. Enter another slug.',
  },
  tags: { expected: 'Enter words of a-z, 0-9 and -, separated by commas.' },
  webhookUrl: addressWords(
    'Enter a full address, such as https://shop.example.com/hooks, or leave it empty.',
  ),
}

/** Whether the price is a JSON text. */
const isJsonPrice = ({ linkType, pricing }: LinkFields): boolean => linkType === 'api' && pricing !== 'one'

/** Moves errors of a price to the field of the table. The message begins with the path, so it names the rule. */
function atRules(fault: ApiFault): ApiFault {
  const details = fault.details.map((one) =>
    /^price\b/.test(one.path) && one.code !== 'no_payout_wallet'
      ? { path: 'rules', code: 'refused', message: `${one.path}: ${one.message}` }
      : one,
  )
  return new ApiFault(fault.status, {
    code: fault.code,
    message: fault.message,
    ...(fault.requestId !== undefined && { requestId: fault.requestId }),
    details,
  })
}

/** The first contents of the field, which show the form of a table and of a price by use. */
const samples = {
  one: '',
  rules: `{
  "rules": [
    { "when": { "method": "POST", "path": "/render/*", "query": { "size": "large" } }, "price": "0.05" }
  ],
  "otherwise": "0.01"
}`,
  use: `{
  "upTo": "0.10",
  "by": { "tokens": { "input": "3", "output": "15" } },
  "otherwise": "0.02"
}`,
}

/** Keeps a text that the seller has changed. */
const rulesFor = (pricing: LinkFields['pricing'], rules: string): string =>
  Object.values(samples).includes(rules) ? samples[pricing] : rules

/** The form of a link. */
export function LinkForm({ link, action, submit, onSubmit, children }: LinkFormProps) {
  const form = useForm(link === undefined ? blank : fieldsOf(link), action, words)
  const { at, errorAt } = form
  const isApi = form.fields.linkType === 'api'
  const send = form.submit(async (fields) => {
    const { error } = headersOf(fields, link)
    if (error !== undefined) throw refuse({ upstreamHeaders: error })
    const table = priceOf(fields)
    if (table.error !== undefined) throw refuse({ rules: table.error })
    await onSubmit(fields).catch((fault: unknown) => {
      throw isJsonPrice(fields) && fault instanceof ApiFault ? atRules(fault) : fault
    })
  })
  return html`<form class="stack shell-form" ref=${form.ref} onSubmit=${send} novalidate>
    <fieldset class="choices">
      <legend>What you sell</legend>
      ${kinds.map(
        ({ linkType, title }) => html`<label key=${linkType}>
          <input type="radio" name="linkType" checked=${form.fields.linkType === linkType} onChange=${() => form.set({ linkType })} /><span>${title}</span>
        </label>`,
      )}
    </fieldset>
    <${Field} ...${at('title')} label="Title" hint="Name what you sell in a few words." maxlength="200" required />
    ${
      isApi
        ? html`<${Field} ...${at('url')} label="Address of your API" hint="The gateway forwards calls to this address. Buyers never see the address." type="url" inputmode="url" placeholder="https://api.example.com/v1" required />`
        : html`<${Field} ...${at('url')} label="Address of what you sell" hint="The gateway sends buyers to this address after they have paid." type="url" inputmode="url" placeholder="https://files.example.com/guide.pdf" required />`
    }
    ${
      link !== undefined &&
      isApi &&
      isMoved(form.fields, link) &&
      html`<${Field} ...${at('headers', 'upstreamHeaders')} label="Headers for the new address" rows=${2} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
        hint="The gateway sends these headers with every call. Write one per line, such as X-Key: value. Headers stored for the old address are not sent to the new address." />`
    }
    ${
      isApi &&
      html`<${Select}
        id="pricing" label="Pricing" value=${form.fields.pricing} onChange=${(pricing: LinkFields['pricing']) => form.set({ pricing, rules: rulesFor(pricing, form.fields.rules) })}
        options=${[
          { value: 'one', label: 'One price for every call' },
          { value: 'rules', label: 'Prices by request' },
          { value: 'use', label: 'Price by use' },
        ]}
      />`
    }
    ${isApi && form.fields.pricing === 'rules' ? html`<${PriceTable} ...${at('rules')} />` : ''}
    ${
      isApi && form.fields.pricing === 'use'
        ? html`<${Field} ...${at('rules')} label="Prices, USDC" rows=${10} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
          hint="JSON. upTo is the most that a call costs. by says how its use is counted. otherwise is the price of a call whose use is not known." />`
        : ''
    }
    ${
      isJsonPrice(form.fields)
        ? ''
        : html`<${Field} ...${at('price')} label=${isApi ? 'Price per call, USDC' : 'Price, USDC'} hint="0 is free." inputmode="decimal" />`
    }
    <${Field} ...${at('description')} label="Description" rows=${3} maxlength="500" hint="Describe what a buyer gets and what the call needs." />
    <${Select}
      id="visibility" label="Visibility" value=${form.fields.visibility} onChange=${(visibility: LinkFields['visibility']) => form.set({ visibility })}
      options=${[
        { value: 'listed', label: 'Public: listed in the marketplace' },
        { value: 'unlisted', label: 'Unlisted: only people with the address' },
        { value: 'secret', label: 'Secret: only people with the secret address' },
      ]}
    />
    <${Select}
      id="access" label="Calls without a payment" value=${form.fields.access} error=${form.fields.access === 'paid-for' ? undefined : errorAt('access')} onChange=${(access: LinkFields['access']) => form.set({ access })}
      options=${[
        { value: 'none', label: 'None: every call costs the price' },
        { value: 'paid-for', label: 'By wallets that have paid, for a while' },
        { value: 'signed-in', label: 'By every wallet that signs in: the price is 0' },
      ]}
    />
    ${form.fields.access === 'paid-for' && html`<${Field} ...${at('paidFor', 'access')} label="How long a purchase lasts" hint="A number of minutes, hours or days, such as 30m, 24h or 7d. The wallet signs in and does not pay again." autocapitalize="none" />`}
    <details class="shell-more" open=${['slug', 'tags', 'webhookUrl'].some(errorAt)}>
      <summary>More</summary>
      <div class="stack">
        <${Field} ...${at('slug')} label="Slug" hint=${link === undefined ? 'The last part of the address. If you leave this field empty, the gateway uses the title.' : 'The last part of the address. The last ten old addresses redirect to the new address for 30 days.'} autocapitalize="none" />
        <${Field} ...${at('tags')} label="Tags" hint="Search words, such as weather, maps." autocapitalize="none" />
        <${Field} ...${at('webhookUrl')} label="Webhook" hint="Optional. The gateway reports each sale of this link to this address." type="url" />
      </div>
    </details>
    ${form.line}
    <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>${submit}<//>${children}</div>
  </form>`
}
