import { Button } from '../components/button.ts'
import { Field } from '../components/field.ts'
import { Select } from '../components/select.ts'
import { addressWords, type FormWords, refuse, useForm } from '../desk/form.ts'
import type { Action } from '../desk/load.ts'
import { type Children, html } from '../html.ts'
import { headersIn } from './import/importBody.ts'
import type { LinkAnswer } from './types.ts'

/** Of a link, what its seller fills in. */
export interface LinkFields {
  /** `standard`: no API is behind it; buyers are led to its address after paying. */
  readonly linkType: 'api' | 'standard'
  readonly title: string
  readonly url: string
  readonly price: string
  readonly description: string
  readonly slug: string
  readonly tags: string
  readonly webhookUrl: string
  readonly visibility: 'listed' | 'unlisted' | 'secret'
  /** For another host than before, one a line: `X-Key: value`. */
  readonly headers: string
}

const blank: LinkFields = {
  linkType: 'api',
  ...{ title: '', url: '', price: '0.01', description: '', slug: '', tags: '', webhookUrl: '' },
  visibility: 'listed',
  headers: '',
}

const fieldsOf = (link: LinkAnswer): LinkFields => ({
  linkType: link.linkType,
  ...{ title: link.title, url: link.url, price: link.price, description: link.description, slug: link.slug },
  ...{ tags: link.tags.join(', '), webhookUrl: link.webhookUrl ?? '' },
  visibility: link.isStealth ? 'secret' : link.isPublic ? 'listed' : 'unlisted',
  headers: '',
})

/** The stored headers were for the old host: the API takes a new host only with headers of its own, or none. */
const isMoved = (fields: LinkFields, { url }: LinkAnswer): boolean =>
  URL.parse(fields.url.trim())?.origin !== new URL(url).origin

/** Headers go to an API; what was typed while the form showed their field doesn't count when it no longer does. */
const headersOf = (fields: LinkFields, before: LinkAnswer | undefined) =>
  headersIn(
    fields.linkType === 'api' && before !== undefined && isMoved(fields, before) ? fields.headers : '',
  )

/** The body that makes a link of these fields; for a change, of what is another by now only. */
export function linkBody(fields: LinkFields, before?: LinkAnswer): Record<string, unknown> {
  const { linkType, title, url, price, description, slug, tags, webhookUrl, visibility } = fields
  const body: Record<string, unknown> = {
    linkType,
    ...{ title, url: url.trim(), price: price.trim(), description },
    // Of a new link it is made from the title; a link that is there always has one, and the API says so.
    ...((before !== undefined || slug.trim() !== '') && { slug: slug.trim() }),
    tags: tags.split(/[\s,]+/).filter(Boolean),
    webhookUrl: webhookUrl.trim() || null,
    ...{ isPublic: visibility === 'listed', isStealth: visibility === 'secret' },
    ...(before !== undefined &&
      isMoved(fields, before) && {
        upstreamHeaders: headersOf(fields, before).headers,
      }),
  }
  if (before === undefined) return body
  return Object.fromEntries(
    Object.entries(body).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof LinkAnswer]),
    ),
  )
}

export interface LinkFormProps {
  /** The link that is changed; none for a new one. */
  readonly link?: LinkAnswer
  readonly action: Action
  readonly submit: string
  readonly onSubmit: (fields: LinkFields) => Promise<unknown>
  /** Beside the button. */
  readonly children?: Children
}

const kinds = [
  { linkType: 'api', title: 'Calls to an API' },
  { linkType: 'standard', title: 'A page or a file' },
] as const

const words: FormWords = {
  title: { expected: 'Enter a title: what is sold, in a few words.' },
  url: addressWords('Enter the whole address, such as https://api.example.com/v1.'),
  price: {
    expected: 'Enter a price in USDC, such as 0.01; 0 is free.',
    no_payout_wallet: 'A paid link needs a wallet that buyers pay. Name one in your profile first.',
  },
  upstreamHeaders: {},
  description: {},
  slug: {
    expected: 'Enter 3 to 64 characters of a-z, 0-9 and -.',
    SLUG_ALREADY_EXISTS: 'You have a link with this address. Enter another one.',
  },
  tags: { expected: 'Enter words of a-z, 0-9 and -, with commas between them.' },
  webhookUrl: addressWords('Enter a whole address, such as https://shop.example.com/hooks, or none.'),
}

/** What a link is made of. */
export function LinkForm({ link, action, submit, onSubmit, children }: LinkFormProps) {
  const form = useForm(link === undefined ? blank : fieldsOf(link), action, words)
  const { at, errorAt } = form
  const isApi = form.fields.linkType === 'api'
  const send = form.submit(async (fields) => {
    const { error } = headersOf(fields, link)
    if (error !== undefined) throw refuse({ upstreamHeaders: error })
    await onSubmit(fields)
  })
  return html`<form class="stack desk-form" ref=${form.ref} onSubmit=${send} novalidate>
    <fieldset class="choices">
      <legend>What you sell</legend>
      ${kinds.map(
        ({ linkType, title }) => html`<label key=${linkType}>
          <input type="radio" name="linkType" checked=${form.fields.linkType === linkType} onChange=${() => form.set({ linkType })} /><span>${title}</span>
        </label>`,
      )}
    </fieldset>
    <${Field} ...${at('title')} label="Title" hint="What is sold, in a few words." maxlength="200" required />
    ${
      isApi
        ? html`<${Field} ...${at('url')} label="Address of your API" hint="Calls go there. Buyers never see it." type="url" inputmode="url" placeholder="https://api.example.com/v1" required />`
        : html`<${Field} ...${at('url')} label="Address of what you sell" hint="Buyers are led there once they have paid." type="url" inputmode="url" placeholder="https://files.example.com/guide.pdf" required />`
    }
    ${
      link !== undefined &&
      isApi &&
      isMoved(form.fields, link) &&
      html`<${Field} ...${at('headers', 'upstreamHeaders')} label="Headers for the new address" rows=${2} class="input mono" spellcheck=${false} autocapitalize="none" autocomplete="off"
        hint="Sent with every call, one a line: X-Key: value. Headers stored for the old address are not sent to the new one." />`
    }
    <${Field} ...${at('price')} label=${isApi ? 'Price of one call, USDC' : 'Price, USDC'} hint="0 is free." inputmode="decimal" />
    <${Field} ...${at('description')} label="Description" rows=${3} maxlength="500" hint="What a buyer gets, and what the call needs." />
    <${Select}
      id="visibility" label="Who finds it" value=${form.fields.visibility} onChange=${(visibility: LinkFields['visibility']) => form.set({ visibility })}
      options=${[
        { value: 'listed', label: 'Everybody, in the marketplace' },
        { value: 'unlisted', label: 'Who knows its address' },
        { value: 'secret', label: 'Who knows its secret address' },
      ]}
    />
    <details class="desk-more" open=${['slug', 'tags', 'webhookUrl'].some(errorAt)}>
      <summary>More</summary>
      <div class="stack">
        <${Field} ...${at('slug')} label="Last part of its address" hint=${link === undefined ? 'Made from the title when empty.' : 'Its last ten addresses lead to the new one for 30 days.'} autocapitalize="none" />
        <${Field} ...${at('tags')} label="Tags" hint="Words that it is found by: weather, maps." autocapitalize="none" />
        <${Field} ...${at('webhookUrl')} label="Webhook" hint="Hears of each sale of this link. Optional." type="url" />
      </div>
    </details>
    ${form.line}
    <div class="row"><${Button} kind="primary" type="submit" isBusy=${action.isBusy}>${submit}<//>${children}</div>
  </form>`
}
