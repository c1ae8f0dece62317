import { useState } from 'preact/hooks'
import { Avatar } from '../components/avatar.ts'
import { Button } from '../components/button.ts'
import { Card } from '../components/card.ts'
import { Field } from '../components/field.ts'
import { showToast } from '../components/toast.ts'
import { addressWords, type FormWords, useForm } from '../desk/form.ts'
import { useAction } from '../desk/load.ts'
import { html } from '../html.ts'
import type { ProfileAnswer } from './profileTypes.ts'
import { useSeller } from './seller.ts'

const MAX_BYTES = 1_048_576
/** Of either side, in pixels. */
const MAX_SIDE = 4_096
const types = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

export interface PictureProps {
  readonly profile: ProfileAnswer
  readonly onChanged: (profile: ProfileAnswer) => void
}

const words: FormWords = {
  file: {},
  avatarUrl: addressWords('Enter the address of a picture, such as https://example.com/me.png.'),
}

interface Chosen {
  readonly file: File
  /** `data:` address: the page's policy shows no other one. */
  readonly preview: string
}

/** The picture of the store: a file of this machine, seen before it is sent, or an address. */
export function Picture({ profile, onChanged }: PictureProps) {
  const { ask, refresh, publicUrl } = useSeller()
  const [chosen, setChosen] = useState<Chosen>()
  const [wrong, setWrong] = useState<string>()
  // Of another choice it is another field: a browser tells nothing of the same file chosen again.
  const [round, setRound] = useState(0)
  const isOurs = profile.avatarUrl.startsWith(`${publicUrl}/avatar/`)
  const action = useAction()
  const form = useForm({ avatarUrl: isOurs ? '' : profile.avatarUrl }, action, words)
  const again = () => {
    setChosen(undefined)
    setWrong(undefined)
    setRound((before) => before + 1)
  }
  const choose = async (event: Event) => {
    const [file] = (event.target as unknown as { files: readonly File[] }).files
    setChosen(undefined)
    setWrong(undefined)
    action.clear()
    if (file === undefined) return
    const read = await readPicture(file)
    if (typeof read === 'string') setWrong(read)
    else setChosen({ file, preview: read.preview })
  }
  const save = async (body: unknown, said: string) => {
    const { avatarUrl } = await ask<{ avatarUrl: string }>('POST', '/api/v1/avatar', body)
    onChanged({ ...profile, avatarUrl })
    again()
    showToast({ text: said })
    refresh()
  }
  const upload = () => {
    const body = new FormData()
    body.set('file', chosen!.file)
    void action.run(() => save(body, 'This is your picture now'))
  }
  const remove = () => action.run(() => save({ avatarUrl: null }, 'The picture was removed'))
  const setByAddress = form.submit(({ avatarUrl }) => save({ avatarUrl: avatarUrl.trim() || null }, 'Saved'))
  const refused = wrong ?? form.errorAt('file')
  return html`<${Card} title="Picture">
    <div class="stack">
      <div class="desk-picture">
        <${Avatar} name=${profile.displayName} isBig=${true} url=${chosen?.preview ?? (isOurs ? profile.avatarUrl : '')} />
        <div class="field">
          <label for="picture-file">${profile.avatarUrl === '' ? 'Choose a picture' : 'Choose another picture'}</label>
          <input key=${round} class="input desk-file" id="picture-file" type="file" accept=${types.join(',')} disabled=${action.isBusy}
            aria-describedby="picture-file-hint" aria-invalid=${refused && 'true'} onChange=${choose} />
          <p class="hint" id="picture-file-hint" aria-live="polite">${
            chosen === undefined
              ? 'PNG, JPEG, WebP or GIF, at most 1 MB. Where it was taken is left out.'
              : 'So it will look. Nothing is sent yet.'
          }</p>
          ${refused && html`<p class="error" role="alert">${refused}</p>`}
        </div>
      </div>
      ${!isOurs && profile.avatarUrl !== '' && chosen === undefined && html`<p class="soft small desk-address">Shown from ${profile.avatarUrl}</p>`}
      ${form.line}
      ${
        chosen !== undefined &&
        html`<div class="row"><${Button} kind="primary" isBusy=${action.isBusy} onClick=${upload}>Use this picture<//>
          <${Button} kind="quiet" onClick=${again}>Leave it<//></div>`
      }
      ${
        chosen === undefined &&
        profile.avatarUrl !== '' &&
        html`<div class="row"><${Button} kind="danger" size="small" isBusy=${action.isBusy} onClick=${remove}>Remove the picture<//></div>`
      }
      <details class="desk-more" open=${form.errorAt('avatarUrl') !== undefined}>
        <summary>By its address</summary>
        <form class="stack" ref=${form.ref} onSubmit=${setByAddress} novalidate>
          <${Field} ...${form.at('avatarUrl')} label="Address of a picture" type="url" inputmode="url" placeholder="https://…"
            hint="It stays where it is, and is shown from there." />
          <div class="row"><${Button} type="submit" isBusy=${action.isBusy}>Save the address<//></div>
        </form>
      </details>
    </div>
  <//>`
}

/** A picture that the service will take, or why it will not, in words. */
async function readPicture(file: File): Promise<{ readonly preview: string } | string> {
  if (!types.includes(file.type)) return `${file.name} is no PNG, JPEG, WebP or GIF.`
  if (file.size > MAX_BYTES)
    return `${file.name} has ${(file.size / MAX_BYTES).toFixed(1)} MB, and a picture may have 1 MB. Make it smaller first.`
  const preview = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  }).catch(() => undefined)
  const image = new Image()
  image.src = preview ?? ''
  const isThere = await image.decode().then(
    () => true,
    () => false,
  )
  if (preview === undefined || !isThere) return `${file.name} can’t be shown: it is broken, or no picture.`
  const { naturalWidth: width, naturalHeight: height } = image
  if (width > MAX_SIDE || height > MAX_SIDE)
    return `${file.name} has ${width} × ${height} pixels, and a picture may have ${MAX_SIDE} to a side. Scale it down first.`
  return { preview }
}
