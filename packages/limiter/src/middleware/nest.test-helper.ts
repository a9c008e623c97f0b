/** Applications of Nest for tests. Decorators are functions here: no compiler has to know them. */
import 'reflect-metadata'
import {
  type ClassProvider,
  Controller,
  type DynamicModule,
  type FactoryProvider,
  type INestApplication,
  Module,
  type Type,
  type ValueProvider,
} from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import { SluiceGuard } from './nest.js'

const PLATFORMS = {
  Express: () => new ExpressAdapter(),
  Fastify: () => new FastifyAdapter(),
} as const

export type Platform = keyof typeof PLATFORMS

export const GLOBAL_GUARD: ClassProvider = { provide: APP_GUARD, useClass: SluiceGuard }

/** Applies decorators to a class and its methods. */
export function decorate<Class extends Type>(
  type: Class,
  decorators: readonly ClassDecorator[],
  methods: Readonly<Record<string, readonly MethodDecorator[]>> = {},
): Class {
  for (const [name, ofMethod] of Object.entries(methods)) {
    const descriptor = Object.getOwnPropertyDescriptor(type.prototype, name)
    if (descriptor === undefined) throw new Error(`no method ${name}`)
    for (const apply of ofMethod) apply(type.prototype, name, descriptor)
  }
  for (const apply of decorators) apply(type)
  return type
}

/** Applies the decorator of a parameter. */
export function decorateParameter(
  type: Type,
  method: string,
  index: number,
  apply: ParameterDecorator,
): void {
  apply(type.prototype, method, index)
}

interface AppOptions {
  readonly imports: DynamicModule[]
  readonly controllers?: Type[]
  readonly providers?: (ClassProvider | FactoryProvider | ValueProvider | Type)[]
  readonly prepare?: (app: INestApplication) => void
}

export interface RunningApp {
  readonly app: INestApplication
  readonly address: string
}

/** Starts an application on a free port. */
export async function startApp(
  { imports, controllers = [], providers = [], prepare }: AppOptions,
  platform: Platform = 'Express',
): Promise<RunningApp> {
  class AppModule {}
  decorate(AppModule, [Module({ imports, controllers, providers })])
  const app = await NestFactory.create(AppModule, PLATFORMS[platform](), {
    logger: false,
    abortOnError: false,
  })
  prepare?.(app)
  await app.listen(0, '127.0.0.1')
  return { app, address: await app.getUrl() }
}

/** A controller of one class, with decorators of its own. */
export function createController(
  type: Type,
  methods: Readonly<Record<string, readonly MethodDecorator[]>>,
  ...decorators: readonly ClassDecorator[]
): Type {
  return decorate(type, [Controller(), ...decorators], methods)
}
