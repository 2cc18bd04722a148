import importX from 'eslint-plugin-import-x';
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import tseslint from 'typescript-eslint';

// The rooms of lib and what each may import besides itself. Nothing points back, so a task can be followed
// forward only: call → encode → insert → (commit) → claim → publish → settle.
const ROOMS = {
  message: ['errors.ts'],
  context: [],
  telemetry: ['errors.ts', 'context'],
  store: ['errors.ts', 'deadline.ts', 'assert-options.ts', 'message', 'telemetry'],
  broker: ['errors.ts', 'deadline.ts', 'celery-options.ts', 'message', 'telemetry'],
  outbox: [
    'errors.ts',
    'assert-options.ts',
    'options.ts',
    'message',
    'context',
    'telemetry',
    'store',
    'broker',
  ],
  relay: [
    'errors.ts',
    'deadline.ts',
    'assert-options.ts',
    'celery-options.ts',
    'options.ts',
    'message',
    'context',
    'telemetry',
    'store',
    'broker',
  ],
  cli: ['errors.ts', 'telemetry', 'relay'],
  testing: ['errors.ts', 'deadline.ts', 'message', 'broker'],
  http: ['errors.ts', 'assert-options.ts', 'options.ts', 'message', 'context', 'telemetry', 'outbox'],
};

// The package, and the only places in lib that may import it: as few as can be.
const OWNERS = {
  winston: ['lib/telemetry/**'],
  'celery-node': ['lib/broker/celery-node.ts'],
  amqplib: ['lib/broker/amqp/**'],
  ioredis: ['lib/broker/redis/**', 'lib/relay/leadership/**', 'lib/relay/schedule/**'],
  bull: ['lib/relay/schedule/**'],
};

const rooms = Object.entries(ROOMS).map(([room, allowed]) => ({
  target: `./lib/${room}`,
  from: './lib',
  except: [room, ...allowed].map((name) => `./${name}`),
  message: `lib/${room} may import only: ${allowed.join(', ')}.`,
}));

const forbid = (names) => ({
  '@typescript-eslint/no-restricted-imports': [
    'error',
    {
      patterns: names.map((name) => ({
        regex: `^${name}(/|$)`,
        message: `Only ${OWNERS[name].join(', ')} may import ${name}.`,
      })),
    },
  ],
});
const packages = Object.keys(OWNERS);
const places = [...new Set(Object.values(OWNERS).flat())];
// A later entry replaces an earlier one's rule: everything is forbidden in lib, then each owner gets its own back.
const owners = [
  { files: ['lib/**/*.ts'], rules: forbid(packages) },
  ...places.map((place) => ({
    files: [place],
    rules: forbid(packages.filter((name) => !OWNERS[name].includes(place))),
  })),
];

export default tseslint.config(
  { ignores: ['dist', 'coverage', 'test/package/fixtures/**'] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ['*.mjs'] } } },
    plugins: { 'import-x': importX },
    settings: { 'import-x/resolver-next': [createTypeScriptImportResolver()] },
    rules: {
      'import-x/no-cycle': 'error',
      'import-x/no-restricted-paths': ['error', { zones: rooms }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-invalid-void-type': ['error', { allowAsThisParameter: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
    },
  },
  {
    files: ['lib/**/*.ts'],
    ignores: ['lib/cli/**'],
    rules: {
      'no-restricted-globals': [
        'error',
        { name: 'process', message: 'Only cli, knexfile, examples and tests read the process.' },
      ],
      'no-console': 'error',
    },
  },
  ...owners,
  {
    // SQL lives in the store and nowhere else.
    files: ['lib/**/*.ts'],
    ignores: ['lib/store/**'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: "CallExpression[callee.property.name='raw']",
          message: 'SQL belongs in lib/store.',
        },
      ],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-unused-expressions': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
  { files: ['*.mjs'], extends: [tseslint.configs.disableTypeChecked] },
);
